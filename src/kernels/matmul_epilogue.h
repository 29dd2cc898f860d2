#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/matmul_plan.h"

namespace popxl::kernels {

/// An elementwise group over the positions of a product, run on each piece of the product while it is in the
/// cache, on the thread that made it. A group made for a block of rows and columns runs anywhere in the
/// product: only the pointers differ.
class MatmulEpilogue {
 public:
  /// Null where pieces can't be worked on alone: an operand without a common stride of its rows, random bits
  /// (they follow the linear position), a product that is computed transposed, in batches or in pieces of k.
  static std::unique_ptr<const MatmulEpilogue> make(const ElementwiseSpec& spec, const MatmulPlan& plan);

  /// Operands: the group's inputs, then its outputs.
  void run(const MatmulPiece& piece, std::span<std::byte* const> operands) const;
  size_t operands() const { return steps_.size(); }

 private:
  struct Step {
    int64_t row = 0, col = 0;  ///< bytes to the next row and column
  };
  struct Block {
    int64_t rows, cols;
    KernelPtr kernel;
  };
  bool addBlock(const ElementwiseSpec& spec, int64_t rows, int64_t cols);

  std::vector<Step> steps_;
  std::vector<Block> blocks_;
  int64_t rows_ = 1;  ///< of a block; the last of a piece may have fewer
};

}  // namespace popxl::kernels
