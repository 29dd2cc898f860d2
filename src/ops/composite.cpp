#include "ops/composite.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace popxl::ops {

namespace {
constexpr int64_t kAlign = 64;
constexpr size_t kMaxOperands = 16;  // of one step, its own scratch memory included
}  // namespace

class Composite::Sequence final : public kernels::Kernel {
 public:
  Sequence(std::vector<Step> steps, int32_t operands, std::vector<int64_t> offsets, int64_t between)
      : steps_(std::move(steps)), operands_(operands), offsets_(std::move(offsets)), between_(between) {
    for (const Step& s : steps_) {
      POPXL_ASSERT(s.operands.size() < kMaxOperands, "{} operands in a step", s.operands.size());
      own_ = std::max(own_, s.kernel->scratchBytes());
    }
  }

  void run(std::span<std::byte* const> operands) const override {
    const auto scratch = [&](int64_t offset) { return operands[static_cast<size_t>(operands_)] + offset; };
    for (const Step& s : steps_) {
      std::array<std::byte*, kMaxOperands> given;
      size_t n = 0;
      for (int32_t i : s.operands) {
        given[n++] = i < operands_ ? operands[static_cast<size_t>(i)]
                                   : scratch(offsets_[static_cast<size_t>(i - operands_)]);
      }
      if (s.kernel->scratchBytes() > 0) given[n++] = scratch(between_);
      s.kernel->run({given.data(), n});
    }
  }
  int64_t scratchBytes() const override { return between_ + own_; }
  double flops() const override {
    double sum = 0;
    for (const Step& s : steps_) sum += s.kernel->flops();
    return sum;
  }
  std::string describe() const override {
    std::string text;
    for (const Step& s : steps_) text += (text.empty() ? "" : " + ") + s.kernel->describe();
    return text;
  }

 private:
  std::vector<Step> steps_;
  int32_t operands_;
  std::vector<int64_t> offsets_;
  int64_t between_, own_ = 0;
};

int32_t Composite::scratch(int64_t bytes) {
  scratchOffsets_.push_back(scratchBytes_);
  scratchBytes_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return operands_ + static_cast<int32_t>(scratchOffsets_.size()) - 1;
}

Composite& Composite::step(kernels::KernelPtr kernel, std::vector<int32_t> operands) {
  steps_.push_back({std::move(kernel), std::move(operands)});
  return *this;
}

kernels::KernelPtr Composite::make() && {
  return std::make_unique<Sequence>(std::move(steps_), operands_, std::move(scratchOffsets_), scratchBytes_);
}

kernels::KernelPtr onOperands(kernels::KernelPtr kernel, int32_t count, std::vector<int32_t> operands) {
  Composite one(count);
  one.step(std::move(kernel), std::move(operands));
  return std::move(one).make();
}

kernels::KernelPtr convertKernel(const Layout& from, const Layout& to) {
  kernels::ElementwiseSpec spec;
  const kernels::Val x = kernels::input(spec.expr, 0, kernels::computeType(from.dtype));
  spec.expr.outputs() = {x.convert(kernels::computeType(to.dtype)).id};
  spec.space = from.shape;
  spec.inputs = {from};
  spec.outputs = {to};
  return kernels::makeElementwise(std::move(spec));
}

}  // namespace popxl::ops
