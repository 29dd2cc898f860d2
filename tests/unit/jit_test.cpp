// Machine code of groups against the tile code: equal bits for every primitive, storage type, length and
// layout, and for random groups.
#include "kernels/jit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "base/result_store.h"
#include "elementwise_testing.h"
#include "kernels/jit_walk.h"

namespace popxl::kernels {
namespace {

using testing::Buffer;
using testing::buffersOf;
using testing::fillRandom;
using testing::forEachTarget;
using testing::pointers;
using testing::runKernel;
using testing::specOf;
using testing::storageOf;

constexpr VType kTypes[] = {VType::kF32, VType::kF64, VType::kI32, VType::kU32, VType::kI64, VType::kU64};
constexpr DType kStorages[] = {DType::kFloat8_143, DType::kFloat8_152, DType::kFloat16, DType::kFloat32,
                               DType::kFloat64,    DType::kInt8,       DType::kInt16,   DType::kInt32,
                               DType::kInt64,      DType::kUInt8,      DType::kUInt16,  DType::kUInt32,
                               DType::kUInt64,     DType::kBool};

bool isFloatStorage(DType t) { return computeType(t) == VType::kF32 || computeType(t) == VType::kF64; }

/// Numbers on which implementations like to differ, and any bits.
template <class Rng>
void fillWild(Buffer& buffer, Rng& rng) {
  const DType t = buffer.layout().dtype;
  const auto size = static_cast<size_t>(popxl::sizeOf(t));
  static constexpr double kEdges[] = {0.0,     -0.0,   1.0,      -1.0,      0.5,      2.5,  0x1p31,
                                      -0x1p31, 0x1p63, 0x1p-149, 0x1p-1074, 1e308,    88.7, -104.0,
                                      0.9,     10.0,   3.9,      HUGE_VAL,  -HUGE_VAL};
  std::normal_distribution<double> normal(0.0, 4.0);
  for (size_t i = 0; i + size <= buffer.size(); i += size) {
    uint64_t bits = rng();
    const uint64_t kind = rng() % 4;
    if (kind > 0 && (t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kFloat16)) {
      const double number = kind == 1 ? kEdges[bits % std::size(kEdges)] : normal(rng);
      if (t == DType::kFloat64) bits = std::bit_cast<uint64_t>(number);
      if (t == DType::kFloat32) bits = std::bit_cast<uint32_t>(static_cast<float>(number));
      if (t == DType::kFloat16) bits = floatToHalf(static_cast<float>(number));
    } else if (kind > 1) {
      bits = kind == 2 ? bits % 70 : ~(bits % 40);
    }
    if (t == DType::kBool) bits %= 3;
    std::memcpy(buffer.data() + i, &bits, size);
  }
}

/// Runs a group both ways, on buffers that begin alike.
void expectSameBits(const ElementwiseSpec& spec, std::vector<Buffer> buffers) {
  if (!jit::chosenIsa()) return;
  std::vector<Buffer> others = buffers;
  runKernel(*makeElementwise(spec, Backend::kCompiled), pointers(buffers));
  runKernel(*makeElementwise(spec, Backend::kTiles), pointers(others));
  for (size_t j = 0; j < spec.outputs.size(); ++j) {
    Buffer& compiled = buffers[spec.inputs.size() + j];
    Buffer& tiles = others[spec.inputs.size() + j];
    ASSERT_TRUE(compiled.marginsIntact()) << "output " << j;
    if (compiled == tiles) continue;
    const DType t = spec.outputs[j].dtype;
    const auto size = static_cast<size_t>(popxl::sizeOf(t));
    for (size_t at = 0; at + size <= compiled.size(); at += size) {
      const bool same = std::memcmp(compiled.data() + at, tiles.data() + at, size) == 0;
      const double x = testing::readElement(t, compiled.data() + at);
      const double y = testing::readElement(t, tiles.data() + at);
      ASSERT_TRUE(same || (isFloatStorage(t) && std::isnan(x) && std::isnan(y)))
          << "output " << j << " element " << at / size << ": " << x << " compiled, " << y << " by tiles";
    }
  }
}

void expectSameBitsOnWildNumbers(const ElementwiseSpec& spec, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Buffer> buffers = buffersOf(spec);
  for (Buffer& b : buffers) fillWild(b, rng);
  expectSameBits(spec, std::move(buffers));
}

bool exists(Prim p, VType t) {
  switch (p) {
    case Prim::kSqrt:
    case Prim::kExp:
    case Prim::kLog:
    case Prim::kTanh:
    case Prim::kErf:
    case Prim::kSin:
    case Prim::kCos:
      return isFloatType(t);
    case Prim::kAnd:
    case Prim::kOr:
    case Prim::kXor:
    case Prim::kNot:
      return !isFloatType(t);
    case Prim::kShl:
    case Prim::kShr:
      return isUnsignedType(t);
    default:
      return true;
  }
}

constexpr int kFirstOperation = static_cast<int>(Prim::kAdd), kLastOperation = static_cast<int>(Prim::kShr);

TEST(Jit, EveryPrimitiveOnEveryTypeAndLength) {
  forEachTarget([] {
    for (int p = kFirstOperation; p <= kLastOperation; ++p) {
      for (const VType type : kTypes) {
        if (!exists(static_cast<Prim>(p), type)) continue;
        for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 1000, 4099}) {
          SCOPED_TRACE(::testing::Message()
                       << "primitive " << p << " type " << static_cast<int>(type) << " n " << n);
          expectSameBitsOnWildNumbers(specOf(static_cast<Prim>(p), type, n), static_cast<uint64_t>(n));
        }
      }
    }
  });
}

TEST(Jit, EveryFloat32OfTheTranscendentalPrimitivesInSteps) {
  forEachTarget([] {
    if (!jit::chosenIsa()) return;
    for (const Prim prim : {Prim::kExp, Prim::kLog, Prim::kTanh, Prim::kErf, Prim::kSin, Prim::kCos}) {
      SCOPED_TRACE(static_cast<int>(prim));
      const int64_t n = (int64_t{1} << 32) / 4001;
      const ElementwiseSpec spec = specOf(prim, VType::kF32, n);
      std::vector<Buffer> buffers = buffersOf(spec);
      for (int64_t i = 0; i < n; ++i) buffers[0].as<uint32_t>()[i] = static_cast<uint32_t>(i * 4001);
      expectSameBits(spec, std::move(buffers));
    }
  });
}

TEST(Jit, ConversionsBetweenAllTypes) {
  forEachTarget([] {
    for (const VType from : kTypes) {
      for (const VType to : kTypes) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(from) << " to " << static_cast<int>(to));
        ElementwiseSpec spec;
        spec.space = {1005};
        spec.inputs = {Layout(storageOf(from), spec.space)};
        spec.outputs = {Layout(storageOf(to), spec.space)};
        spec.expr.outputs() = {input(spec.expr, 0, from).convert(to).id};
        expectSameBitsOnWildNumbers(spec, 3);
      }
    }
  });
}

/// Dense, broadcast along the row, broadcast over rows, one element, a distance apart; stored dense and
/// apart.
TEST(Jit, EveryStorageTypeAndAccess) {
  forEachTarget([] {
    for (const DType t : kStorages) {
      for (const int64_t columns : {5, 16, 37}) {
        SCOPED_TRACE(::testing::Message() << nameOf(t) << " " << columns);
        ElementwiseSpec spec;
        spec.space = Shape{9, columns};
        spec.inputs = {Layout(t, spec.space), Layout(t, {9, 1}), Layout(t, {columns}), Layout(t, {7}),
                       Layout(t, spec.space, {1, 9})};
        spec.outputs = {Layout(t, spec.space), Layout(t, spec.space, {1, 10})};
        const VType type = computeType(t);
        Val sum = input(spec.expr, 0, type);
        for (int32_t i = 1; i < 5; ++i) sum = roundTo(sum + input(spec.expr, i, type, i == 3 ? 4 : -1), t);
        spec.expr.outputs() = {sum.id, roundTo(max(sum, input(spec.expr, 4, type)), t).id};
        expectSameBitsOnWildNumbers(spec, 11);
      }
    }
  });
}

/// Groups of random primitives over values of all types.
class RandomGroup {
 public:
  explicit RandomGroup(uint64_t seed) : rng_(seed) {
    const int64_t rank = 1 + draw(3);
    for (int64_t i = 0; i < rank; ++i) spec.space.push_back(1 + draw(i + 1 == rank ? 70 : 6));
    for (int64_t i = 1 + draw(5); i > 0; --i) addInput();
    for (int64_t i = 3 + draw(25); i > 0; --i) addOperation();
    for (int64_t i = 1 + draw(3); i > 0; --i) addOutput();
  }

  ElementwiseSpec spec;

 private:
  int64_t draw(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  Val any() { return values_[static_cast<size_t>(draw(static_cast<int64_t>(values_.size())))]; }
  Val anyOf(VType type) {
    const Val v = any();
    return v.type() == type ? v : v.convert(type);
  }

  Layout layout(DType dtype, Shape shape) {
    if (draw(3) > 0) return Layout(dtype, std::move(shape));
    Strides strides(shape.size(), 0);
    int64_t step = 1 + draw(2);
    for (size_t d = 0; d < shape.size(); ++d) {
      strides[d] = step;
      step *= shape[d];
    }
    return Layout(dtype, std::move(shape), std::move(strides));
  }

  void addInput() {
    const DType dtype = kStorages[draw(std::size(kStorages))];
    Shape shape = spec.space;
    for (int64_t& size : shape) size = draw(4) == 0 ? 1 : size;
    const auto operand = static_cast<int32_t>(spec.inputs.size());
    spec.inputs.push_back(layout(dtype, shape));
    values_.push_back(input(spec.expr, operand, computeType(dtype)));
  }

  void addOperation() {
    const int64_t kind = draw(12);
    if (kind == 0) return values_.push_back(any().convert(kTypes[draw(6)]));
    if (kind == 1) {
      const DType dtype = kStorages[draw(std::size(kStorages))];
      return values_.push_back(roundTo(anyOf(computeType(dtype)), dtype));
    }
    if (kind == 2) {
      const Val a = any();
      return values_.push_back(select(anyOf(VType::kU32), a, anyOf(a.type())));
    }
    if (kind == 3)
      return values_.push_back(constant(spec.expr, kTypes[draw(6)], static_cast<double>(draw(5))));
    if (kind == 4) return values_.push_back(philox(anyOf(VType::kU32), anyOf(VType::kU32), 2));
    const Val a = any();
    const auto prim = static_cast<Prim>(kFirstOperation + draw(kLastOperation - kFirstOperation + 1));
    // An equality of NaN payloads would be asked of numbers made from them.
    if (!exists(prim, a.type()) || arity(prim) > 2) return;
    values_.push_back(arity(prim) == 1 ? unary(prim, a) : binary(prim, a, anyOf(a.type())));
  }

  void addOutput() {
    const Val v =
        values_[values_.size() - 1 - static_cast<size_t>(draw(std::min<int64_t>(4, values_.size())))];
    std::vector<DType> fitting;
    for (const DType t : kStorages) {
      if (computeType(t) == v.type()) fitting.push_back(t);
    }
    const DType dtype = fitting[static_cast<size_t>(draw(static_cast<int64_t>(fitting.size())))];
    spec.outputs.push_back(layout(dtype, spec.space));
    spec.expr.outputs().push_back(v.id);
  }

  std::mt19937_64 rng_;
  std::vector<Val> values_;
};

TEST(Jit, RandomGroups) {
  forEachTarget([] {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed);
      expectSameBitsOnWildNumbers(RandomGroup(seed).spec, seed);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

/// Far more live values and truth values than there are registers.
TEST(Jit, ManyLiveValues) {
  forEachTarget([] {
    ElementwiseSpec spec;
    spec.space = {133};
    spec.inputs = {Layout(DType::kFloat32, spec.space), Layout(DType::kFloat64, spec.space)};
    spec.outputs = {Layout(DType::kFloat32, spec.space), Layout(DType::kFloat64, spec.space)};
    const Val x = input(spec.expr, 0, VType::kF32), y = input(spec.expr, 1, VType::kF64);
    std::vector<Val> live, wide, truths;
    for (int i = 0; i < 60; ++i) {
      live.push_back(exp(x * (i * 0.01)));
      wide.push_back(y * (i * 0.5) + 1.0);
      truths.push_back(i % 2 == 0 ? x < i * 0.1 : y < i * 0.1);
    }
    Val sum = live[0], wideSum = wide[0];
    for (size_t i = 60; i-- > 0;) {
      sum = select(truths[i], sum + live[i], sum);
      wideSum = select(truths[59 - i], wideSum, wideSum + wide[i]);
    }
    spec.expr.outputs() = {sum.id, wideSum.id};
    expectSameBitsOnWildNumbers(spec, 5);
  });
}

TEST(Jit, EqualGroupsShareCodeAndFreeIt) {
  // Code is made here and never run, so any instruction set does on any machine.
  const auto make = [&](double factor) {
    Expr e;
    e.outputs() = {(input(e, 0, VType::kF32) * factor).id};
    const jit::Operand operand{.dtype = DType::kFloat32};
    return jit::compile(jit::Isa::kAvx2, e, std::span(&operand, 1), std::span(&operand, 1));
  };
  auto first = make(3);
  EXPECT_EQ(first, make(3));
  EXPECT_NE(first, make(4));
  const std::weak_ptr<const jit::Function> freed = first;
  first.reset();
  EXPECT_TRUE(freed.expired());
}

/// Code from a store: the bits of code that was made now, calls of functions of this process included.
TEST(Jit, StoredCodeGivesTheSameBits) {
  if (!jit::chosenIsa()) return;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const RandomGroup group(seed);
    std::vector<Buffer> buffers = buffersOf(group.spec);
    std::mt19937_64 rng(seed);
    for (Buffer& b : buffers) fillWild(b, rng);
    std::vector<Buffer> others = buffers;
    ResultStore first, second;
    {
      const ResultStore::Use use(&first);
      runKernel(*makeElementwise(group.spec), pointers(buffers));
    }
    first.forUsed([&](const Digest& key, std::string_view code) { second.offer(key, std::string(code)); });
    const ResultStore::Use use(&second);
    runKernel(*makeElementwise(group.spec), pointers(others));
    EXPECT_EQ(first.added(), 1);
    EXPECT_EQ(second.added(), 0);
    EXPECT_EQ(second.found(), 1);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(std::memcmp(buffers[i].data(), others[i].data(), buffers[i].size()), 0) << "seed " << seed;
    }
  }
}

/// out = x + row, float64, and whether it is above 1, over `space`, past the caches as far as lines are
/// whole; `shift` elements from where a line begins, or onto x.
void expectStreamedSums(jit::Isa isa, const Shape& space, int64_t shift, bool inPlace) {
  Expr e;
  const Val sum = input(e, 0, VType::kF64) + input(e, 1, VType::kF64);
  e.outputs() = {sum.id, binary(Prim::kLt, sum.constant(1), sum).id};
  const Strides dense = contiguousStrides(space);
  Strides row(space.size(), 0);
  row.back() = 1;
  const std::vector<TileOperand> inputs = {{DType::kFloat64, dense}, {DType::kFloat64, row}};
  const std::vector<TileOperand> outputs = {{DType::kFloat64, dense}, {DType::kBool, dense}};
  const jit::Walk walk(isa, e, space, inputs, outputs, 0);
  const int64_t n = numElements(space), columns = space.back();
  std::vector<double> x(static_cast<size_t>(n)), added(static_cast<size_t>(columns)), want = x;
  std::iota(x.begin(), x.end(), -3.0);
  std::iota(added.begin(), added.end(), 0.5);
  for (int64_t i = 0; i < n; ++i)
    want[static_cast<size_t>(i)] = x[static_cast<size_t>(i)] + added[static_cast<size_t>(i % columns)];
  std::vector<double> memory(static_cast<size_t>(n) + 24, 7.0);
  double* out = memory.data();
  while (reinterpret_cast<uintptr_t>(out) % 64 != 0) ++out;
  out += 8 + shift;
  const auto isAbove = std::make_unique<bool[]>(static_cast<size_t>(n));
  if (inPlace) std::copy(x.begin(), x.end(), out);
  double* const from = inPlace ? out : x.data();
  std::byte* const operands[] = {
      reinterpret_cast<std::byte*>(from), reinterpret_cast<std::byte*>(added.data()),
      reinterpret_cast<std::byte*>(out), reinterpret_cast<std::byte*>(isAbove.get())};
  walk.run(operands, 0, n / 3);
  walk.run(operands, n / 3, n);
  EXPECT_EQ(out[-1], 7.0);
  EXPECT_EQ(out[n], 7.0);
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(out[i], want[static_cast<size_t>(i)]) << toString(space) << " shift " << shift << " at " << i;
    ASSERT_EQ(isAbove[static_cast<size_t>(i)], out[i] > 1);
  }
}

TEST(Jit, ResultsPastTheCaches) {
  forEachTarget([] {
    if (!jit::chosenIsa()) return;
    for (const Shape& space :
         {Shape{1}, Shape{16}, Shape{1000}, Shape{7, 33}, Shape{40, 64}, Shape{3, 5, 48}}) {
      for (const int64_t shift : {0, 1, 4}) expectStreamedSums(*jit::chosenIsa(), space, shift, false);
      expectStreamedSums(*jit::chosenIsa(), space, 0, true);
    }
  });
}

TEST(Jit, BytesThatAreNoImageAreRefused) {
  Expr e;
  e.outputs() = {unary(Prim::kSin, input(e, 0, VType::kF32)).id};
  const jit::Operand operand{.dtype = DType::kFloat16};
  ResultStore store;
  const ResultStore::Use use(&store);
  jit::compile(jit::Isa::kAvx2, e, std::span(&operand, 1), std::span(&operand, 1));
  std::string image;
  store.forUsed([&](const Digest&, std::string_view result) { image = result; });
  ASSERT_TRUE(jit::Image::decode(image));
  EXPECT_EQ(jit::Image::decode(image)->encode(), image);
  for (size_t size = 0; size < image.size(); ++size) {
    EXPECT_FALSE(jit::Image::decode(std::string_view(image).substr(0, size))) << size;
  }
  EXPECT_FALSE(jit::Image::decode(image + "x"));
  for (size_t i = 0; i < image.size(); ++i) {
    std::string changed = image;
    changed[i] = static_cast<char>(~changed[i]);
    const auto read = jit::Image::decode(changed);
    EXPECT_TRUE(!read || read->outside.size() == jit::Image::decode(image)->outside.size()) << i;
  }
}

TEST(Jit, ManyThreadsCompileAndRun) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (uint64_t seed = 0; seed < 40; ++seed) {
        expectSameBitsOnWildNumbers(RandomGroup(seed % 7 + static_cast<uint64_t>(t % 2) * seed).spec, seed);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

/// Compiles groups, then runs them after `meet`.
void compileMeetAndRun(uint64_t firstSeed, const std::function<void()>& meet) {
  std::vector<KernelPtr> held;  // the code that is run then
  for (uint64_t seed = firstSeed; seed < firstSeed + 20; ++seed)
    held.push_back(makeElementwise(RandomGroup(seed).spec, Backend::kCompiled));
  meet();
  for (uint64_t seed = firstSeed; seed < firstSeed + 20; ++seed)
    expectSameBitsOnWildNumbers(RandomGroup(seed).spec, seed);
}

/// What one process compiles after a fork is not where the other one's code is.
TEST(Jit, AForkedProcessHasCodeOfItsOwn) {
  if (!jit::chosenIsa()) return;
  expectSameBitsOnWildNumbers(RandomGroup(1).spec, 1);
  int toChild[2], toParent[2];
  ASSERT_EQ(::pipe(toChild), 0);
  ASSERT_EQ(::pipe(toParent), 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    compileMeetAndRun(100, [&] {
      if (::write(toParent[1], &byte, 1) != 1 || ::read(toChild[0], &byte, 1) != 1) ::_exit(2);
    });
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  compileMeetAndRun(200, [&] {
    ASSERT_EQ(::read(toParent[0], &byte, 1), 1);
    ASSERT_EQ(::write(toChild[1], &byte, 1), 1);
  });
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  for (const int end : {toChild[0], toChild[1], toParent[0], toParent[1]}) ::close(end);
}

TEST(Jit, EnvironmentTurnsItOff) {
  ::setenv("POPXL_JIT", "0", 1);
  EXPECT_FALSE(jit::chosenIsa());
  ::unsetenv("POPXL_JIT");
}

}  // namespace
}  // namespace popxl::kernels
