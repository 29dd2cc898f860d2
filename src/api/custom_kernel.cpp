#include "api/custom_kernel.h"

#include "base/element.h"
#include "exec/user_code.h"
#include "ir/graph.h"
#include "ir/op.h"

namespace popxl::api {
namespace {

std::vector<TensorSpec> specsOf(const std::vector<ir::Tensor*>& tensors) {
  std::vector<TensorSpec> specs;
  for (const ir::Tensor* t : tensors) specs.push_back({t->shape(), t->dtype()});
  return specs;
}

void call(const CustomOp::ArrayFunction& fn, const OpUse& use, std::span<std::byte* const> memory) {
  std::vector<InputArray> in;
  std::vector<OutputArray> out;
  for (const TensorSpec& spec : use.operands) in.push_back({spec, memory[in.size()]});
  for (const TensorSpec& spec : use.results) out.push_back({spec, memory[in.size() + out.size()]});
  const exec::UserCode running;
  guarded(ErrorKind::kNumeric, [&] { fn(use, in, out); });
}

class ArrayKernel final : public kernels::Kernel {
 public:
  ArrayKernel(const ir::Op& op, const CustomOp::ArrayFunction& fn) : op_(op), fn_(fn), use_(useOf(op)) {}
  void run(std::span<std::byte* const> operands) const override {
    try {
      call(fn_, use_, operands);
    } catch (const Error& error) {
      std::throw_with_nested(Error(
          error.kind(), fmt::format("{}\n  in op `{}` at {}", error.what(), op_.name(), op_.loc().str())));
    }
  }
  std::string describe() const override { return op_.name() + ", a function of the program's own"; }

 private:
  const ir::Op& op_;
  const CustomOp::ArrayFunction& fn_;
  OpUse use_;
};

}  // namespace

OpUse useOf(const ir::Op& op) {
  OpUse use{specsOf(op.inputs()), specsOf(op.outputs()), {}};
  for (size_t i = 0; i < op.attrs().size(); ++i) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_constructible_v<AttrValue, std::decay_t<decltype(value)>>)
            use.attrs.emplace_back(op.def().attrs[i].name, value);
        },
        op.attrs()[i]);
  }
  return use;
}

kernels::KernelPtr arrayKernel(const ir::Op& op, const CustomOp::ArrayFunction& fn) {
  return std::make_unique<ArrayKernel>(op, fn);
}

void runOnArrays(ir::ReferenceContext& c, const CustomOp::ArrayFunction& fn) {
  const OpUse use = useOf(c.op);
  std::vector<std::vector<std::byte>> arrays;
  const auto add = [&](const ir::Array& array) {
    const int64_t size = sizeOf(array.dtype());
    arrays.emplace_back(static_cast<size_t>(array.size() * size));
    for (int64_t i = 0; i < array.size(); ++i)
      storeElement(array.dtype(), array[i].stored(array.dtype()), arrays.back().data() + i * size);
  };
  for (const ir::Array& array : c.in) add(array);
  for (const ir::Array& array : c.out) add(array);
  std::vector<std::byte*> memory;
  for (std::vector<std::byte>& array : arrays) memory.push_back(array.data());
  call(fn, use, memory);
  for (size_t k = 0; k < c.out.size(); ++k) {
    ir::Array& out = c.out[k];
    const std::byte* from = memory[c.in.size() + k];
    for (int64_t i = 0; i < out.size(); ++i)
      out[i] = ir::Number(out.dtype(), loadElement(out.dtype(), from + i * sizeOf(out.dtype())));
  }
}

}  // namespace popxl::api
