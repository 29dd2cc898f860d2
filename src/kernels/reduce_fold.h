#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/elementwise.h"
#include "kernels/jit_walk.h"
#include "kernels/reduce_ops.h"
#include "kernels/tile_program.h"

namespace popxl::kernels {

/// The dtype whose memory is a compute type.
DType dtypeOf(VType t);

/// The part of a reduction that folds: expr over [outer, reduced, columns] to partial results, and those to
/// one for every output. Which elements meet in which order depends on the space and the axes alone.
///
/// Rows (columns = 1): a row is cut into segments; elements of a segment go to lanes, lanes are halved.
/// Columns: rows are added to a vector of sums, one vector a segment of rows. Then segments are combined in
/// pairs.
class FoldKernel {
 public:
  /// Axes of size one in `space` count as kept. `expr` has one output, of the type that is accumulated.
  FoldKernel(const Expr& expr, Fold fold, const Shape& space, const std::vector<Layout>& inputs,
             const std::vector<int64_t>& axes, Backend backend);

  int64_t outputs() const { return outer_ * columns_; }
  int64_t reduced() const { return reduced_; }
  /// Partial results in elements: [outer, segments, columns]; the result is segment 0.
  int64_t partials() const { return outer_ * segments_ * columns_; }
  bool isDense() const { return segments_ == 1; }
  /// Strides of the result inside the partial results, one for every dimension of the space (0 on the axes).
  const Strides& resultStrides() const { return resultStrides_; }

  void run(std::byte* const* inputs, std::byte* partials) const;

 private:
  class Values;

  void plan(const Shape& space, const std::vector<bool>& isReduced);
  void foldRows(Values& values, std::byte* partials, int64_t begin, int64_t end) const;
  void foldShortRows(Values& values, std::byte* partials, int64_t begin, int64_t end) const;
  void foldColumns(Values& values, std::byte* partials, int64_t item) const;
  void combine(std::byte* partials) const;

  const FoldOps* ops_;
  int64_t size_;  ///< of an accumulated element
  int64_t outer_ = 1, reduced_ = 1, columns_ = 1;
  int64_t segments_ = 1, columnBlocks_ = 1;
  Shape order_;  ///< dimensions of the space, as the program walks them
  Strides resultStrides_;
  // One of these computes what is folded, up to tile_ positions at a time.
  std::optional<TileProgram> tiles_;
  std::optional<jit::Walk> compiled_;
  size_t inputs_;
  int64_t tile_ = 0;
};

/// makeReduce, with what computes what is folded.
KernelPtr makeReduce(ReduceSpec spec, Backend backend);

}  // namespace popxl::kernels
