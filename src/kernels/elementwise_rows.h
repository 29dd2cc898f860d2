#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/expr.h"
#include "popxl/dtype.h"

namespace popxl::kernels {

/// How the columns of a row read or write an operand of ElementwiseRows.
struct RowOperand {
  DType dtype;
  bool alongRow = true;  ///< elements side by side; false (inputs only): one element a row
};

/// A block of rows. Pointers are to every operand's first element in the block: inputs, then outputs. Stride
/// 0 gives all rows the same elements, as a bias has.
struct RowBlock {
  std::byte* const* pointers;
  const int64_t* rowStrides;  ///< bytes, of every operand
  int64_t rows, columns;
};

/// An elementwise group that another kernel applies to what it has in cache: the epilogue of a matmul, the
/// ends of a reduction. The same code and the same bits as makeElementwise's. An output may be the same
/// memory as an input that lies alike. run() allocates nothing and may be called by any number of threads at
/// once.
class ElementwiseRows {
 public:
  virtual ~ElementwiseRows() = default;
  virtual void run(const RowBlock& block) const = 0;
};

/// `expr` reads whole operands only, no single elements, and draws no random bits. Columns of a block are at
/// most `maxColumns`.
std::unique_ptr<const ElementwiseRows> makeElementwiseRows(const Expr& expr,
                                                           const std::vector<RowOperand>& inputs,
                                                           const std::vector<RowOperand>& outputs,
                                                           int64_t maxColumns);

}  // namespace popxl::kernels
