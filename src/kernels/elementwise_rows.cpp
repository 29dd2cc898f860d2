#include "kernels/elementwise_rows.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/jit.h"
#include "kernels/tile_program.h"

namespace popxl::kernels {
namespace {

class CompiledRows final : public ElementwiseRows {
 public:
  CompiledRows(jit::Isa isa, const Expr& expr, const std::vector<RowOperand>& inputs,
               const std::vector<RowOperand>& outputs)
      : function_(jit::compile(isa, expr, operands(inputs), operands(outputs))) {}

  void run(const RowBlock& block) const override {
    std::array<std::byte*, jit::kMaxSlots> pointers;
    std::array<int64_t, jit::kMaxSlots> rowStrides;
    size_t i = 0;
    for (const jit::Slot& slot : function_->slots()) {
      pointers[i] = block.pointers[slot.operand];
      rowStrides[i++] = block.rowStrides[slot.operand];
    }
    function_->run({.pointers = pointers.data(),
                    .rowStrides = rowStrides.data(),
                    .strides = nullptr,
                    .rows = block.rows,
                    .columns = block.columns});
  }

 private:
  static std::vector<jit::Operand> operands(const std::vector<RowOperand>& rows) {
    std::vector<jit::Operand> out;
    for (const RowOperand& r : rows) {
      out.push_back({.dtype = r.dtype, .access = r.alongRow ? jit::Access::kDense : jit::Access::kUniform});
    }
    return out;
  }

  std::shared_ptr<const jit::Function> function_;
};

/// Tile code on one row after the other.
class TileRows final : public ElementwiseRows {
 public:
  TileRows(const Expr& expr, const std::vector<RowOperand>& inputs, const std::vector<RowOperand>& outputs,
           int64_t maxColumns)
      : operands_(inputs.size() + outputs.size()),
        program_(compileTiles(expr, {maxColumns}, operands(inputs), operands(outputs))) {
    POPXL_ASSERT(operands_ <= jit::kMaxSlots, "{} operands", operands_);
  }

  void run(const RowBlock& block) const override {
    std::array<std::byte*, jit::kMaxSlots> pointers;
    for (int64_t row = 0; row < block.rows; ++row) {
      for (size_t i = 0; i < operands_; ++i) pointers[i] = block.pointers[i] + row * block.rowStrides[i];
      UniformBuffer uniforms;
      TileBuffer buffer;
      const TileInvocation invocation(program_, pointers.data(), uniforms);
      TileRunner runner(invocation, buffer);
      for (int64_t start = 0; start < block.columns; start += program_.tile) {
        const int64_t n = std::min(program_.tile, block.columns - start);
        const int64_t whole = n / kBlock * kBlock;
        if (whole > 0) runner.run(start, whole);
        if (whole < n) runner.run(start + whole, n - whole);
      }
    }
  }

 private:
  static std::vector<TileOperand> operands(const std::vector<RowOperand>& rows) {
    std::vector<TileOperand> out;
    for (const RowOperand& r : rows) out.push_back({r.dtype, {r.alongRow ? 1 : 0}});
    return out;
  }

  size_t operands_;
  TileProgram program_;
};

}  // namespace

std::unique_ptr<const ElementwiseRows> makeElementwiseRows(const Expr& expr,
                                                           const std::vector<RowOperand>& inputs,
                                                           const std::vector<RowOperand>& outputs,
                                                           int64_t maxColumns) {
  for (const Node& n : expr.nodes()) {
    POPXL_ASSERT(n.prim != Prim::kPhilox && n.element < 0, "primitive {} in rows", static_cast<int>(n.prim));
  }
  if (const auto isa = jit::chosenIsa()) return std::make_unique<CompiledRows>(*isa, expr, inputs, outputs);
  return std::make_unique<TileRows>(expr, inputs, outputs, maxColumns);
}

}  // namespace popxl::kernels
