#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace popxl::ops {

/// Several kernels one after another as one: each works on some of the operands, or on memory between them.
class Composite {
 public:
  explicit Composite(int32_t operands) : operands_(operands) {}
  /// Memory that lives from one step to the next; gives its index among the operands.
  int32_t scratch(int64_t bytes);
  /// Runs `kernel` on these operands.
  Composite& step(kernels::KernelPtr kernel, std::vector<int32_t> operands);
  kernels::KernelPtr make() &&;

 private:
  struct Step {
    kernels::KernelPtr kernel;
    std::vector<int32_t> operands;
  };
  class Sequence;
  int32_t operands_;
  std::vector<int64_t> scratchOffsets_;
  int64_t scratchBytes_ = 0;
  std::vector<Step> steps_;
};

/// `kernel` on some of an op's `count` operands and results, in the order that it documents.
kernels::KernelPtr onOperands(kernels::KernelPtr kernel, int32_t count, std::vector<int32_t> operands);

/// Operands: from, to, of one shape. Every element converted to the dtype of `to`.
kernels::KernelPtr convertKernel(const Layout& from, const Layout& to);

}  // namespace popxl::ops
