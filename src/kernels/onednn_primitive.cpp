#include "kernels/onednn_primitive.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "kernels/onednn_gemm.h"
#include "kernels/parallel.h"

namespace popxl::kernels::onednn {

const dnnl::engine& cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// What one call needs for itself.
struct Primitive::Context {
  std::atomic<bool> busy{false};
  dnnl::stream stream{cpuEngine()};
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
};

Primitive::Primitive(const dnnl::primitive& primitive, std::vector<Argument> arguments,
                     const dnnl::memory::desc& scratchpad)
    : primitive_(primitive), scratchBytes_(static_cast<int64_t>(scratchpad.get_size())) {
  if (scratchBytes_ > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  count_ = arguments.size();
  const auto threads =
      std::max<unsigned>(std::thread::hardware_concurrency(), static_cast<unsigned>(threadCount()));
  for (unsigned i = 0; i <= threads; ++i) {
    auto context = std::make_unique<Context>();
    for (const Argument& a : arguments) {
      context->memories.emplace_back(a.desc, cpuEngine(), nullptr);
      context->arguments.push_back({a.id, context->memories.back().get()});
    }
    contexts_.push_back(std::move(context));
  }
}

Primitive::~Primitive() = default;

void Primitive::run(std::initializer_list<void*> pointers) const {
  POPXL_ASSERT(pointers.size() == count_, "{} pointers for {} arguments", pointers.size(), count_);
  Context* context = nullptr;
  for (size_t i = 0; context == nullptr; i = (i + 1) % contexts_.size()) {
    if (!contexts_[i]->busy.exchange(true, std::memory_order_acquire))
      context = contexts_[i].get();
    else if (i + 1 == contexts_.size())
      std::this_thread::yield();
  }
  const dense::SingleThreaded guard;
  size_t index = 0;
  dnnl_status_t status = dnnl_success;
  for (void* pointer : pointers) {
    if (status == dnnl_success)
      status = dnnl_memory_set_data_handle(context->memories[index++].get(), pointer);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive_.get(), context->stream.get(), static_cast<int>(count_),
                                    context->arguments.data());
  }
  context->busy.store(false, std::memory_order_release);
  POPXL_ASSERT(status == dnnl_success, "oneDNN status {}", static_cast<int>(status));
}

std::unique_ptr<Primitive> makeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  if (from == to) return nullptr;
  const dense::SingleThreaded guard;
  const dnnl::reorder::primitive_desc desc(cpuEngine(), from, cpuEngine(), to, userScratchpad());
  return std::make_unique<Primitive>(
      dnnl::reorder(desc), std::vector<Primitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
      desc.scratchpad_desc());
}

}  // namespace popxl::kernels::onednn
