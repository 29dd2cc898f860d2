// A run allocates nothing once a session has run before: this program counts calls of operator new.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/parallel.h"
#include "program_builder.h"

namespace {
std::atomic<int64_t> allocations{0};

void* allocate(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// Not inlined: the compiler would warn of memory of its own operator new that goes to free.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }
}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace popxl {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Tensor;
using testing::affineGraph;
using testing::Builder;
using Ints = std::vector<int64_t>;

/// Allocations of a run after the first: the fewest of several, as a thread that takes part for the first
/// time makes memory of its own.
int64_t allocationsOfARun(Builder& b) {
#ifdef __SANITIZE_THREAD__
  kernels::setThreadCount(1);  // with that sanitizer each piece of work makes its threads
#endif
  exec::Session session(b.ir);
  session.attach();
  session.weightsFromHost();
  const auto buffers = b.buffers();
  session.run(buffers);
  int64_t fewest = INT64_MAX;
  for (int run = 0; run < 12; ++run) {
    const int64_t before = allocations.load();
    session.run(buffers);
    fewest = std::min(fewest, allocations.load() - before);
  }
  return fewest;
}

TEST(SteadyState, FusedGroupsReductionsRowsAndViews) {
  Builder b;
  Tensor* x = b.load("x", {300, 200}, std::vector<float>(300 * 200, 0.5f));
  Tensor* y = b.make("gelu", {b.make("add", {x, b.constant({200}, std::vector<float>(200, 1.0f))})});
  Tensor* t = b.make("transpose", {y}, {Attr(Ints{1, 0})});
  b.store("sum", b.make("sum", {t}, {Attr(Ints{0})}));
  b.store("softmax", b.make("softmax", {y}, {Attr(int64_t{-1})}));
  EXPECT_EQ(allocationsOfARun(b), 0);
}

TEST(SteadyState, CallsAndLoops) {
  Builder b;
  Graph& g = affineGraph(b, false);
  Tensor* x = b.load("x", {2}, {1, 2});
  Tensor* k = b.constant({}, {2.0f});
  Tensor* once = b.make("call", {x, k}, {Attr(&g)});
  b.store("y", b.make("repeat", {once, k}, {Attr(&g), Attr(int64_t{5})}));
  EXPECT_EQ(allocationsOfARun(b), 0);
}

/// Two replicas that run a graph with a collective so many times.
int64_t allocationsOfReplicas(int64_t iterations) {
  Builder b;
  b.ir->options().enableReplicatedGraphs = true;
  b.ir->options().replicatedGraphCount = 2;
  Graph& g = b.ir->createGraph("exchange");
  Tensor* t = g.addInput("t", {DType::kFloat32, {2}, {}});
  ir::Context::current().pushGraph(g);
  g.addOutput(b.make("replicated_all_reduce", {t}));
  ir::Context::current().popGraph();
  Tensor* x = b.variable("x", {2}, {1, 2});
  b.make("add_", {x, b.make("repeat", {x}, {Attr(&g), Attr(iterations)})});
  return allocationsOfARun(b);
}

TEST(SteadyState, ReplicasInStep) { EXPECT_EQ(allocationsOfReplicas(400), allocationsOfReplicas(4)); }

TEST(SteadyState, ProductsAndUpdatesOfVariables) {
  Builder b;
  Tensor* w = b.variable("w", {256, 256}, std::vector<float>(256 * 256, 0.01f));
  Tensor* x = b.load("x", {256, 256}, std::vector<float>(256 * 256, 0.5f));
  Tensor* y = b.make("matmul", {x, w});
  b.make("add_", {w, y});
  EXPECT_EQ(allocationsOfARun(b), 0);
}

}  // namespace
}  // namespace popxl
