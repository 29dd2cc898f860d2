#pragma once

#include <optional>
#include <vector>

#include "analysis/value_uses.h"
#include "analysis/written.h"

namespace popxl::passes {

/// What a graph's ops mean to the search for attention: who reads which value, and what changes in place.
struct GraphFacts {
  const analysis::ValueUses& uses;
  analysis::Written written;
};

/// softmax(mask(scale * q k)) v as ops of one graph.
struct Attention {
  ir::Op *softmax, *mix;   ///< the softmax, and the product with v
  ir::Tensor *q, *kT, *v;  ///< operands of the two products
  ir::Tensor* bias = nullptr;
  ir::Tensor* condition = nullptr;  ///< of a `where` that puts `fill` in
  bool fillsWhereTrue = false;
  double scale = 1, fill = 0;
  bool keepsProbabilities = false;  ///< something else reads the softmax
};
/// The attention around a softmax, if that is one.
std::optional<Attention> matchAttention(ir::Op& softmax, const GraphFacts& facts);

/// The gradient of attention as ops of one graph.
struct AttentionGrad {
  ir::Op* softmaxGrad;
  ir::Tensor *grad, *vT,
      *probabilities;  ///< of the product that gives the gradient of the softmax; the softmax
  ir::Tensor *qT, *k;  ///< operands beside the gradient of the scores
  ir::Tensor* condition = nullptr;
  bool fillsWhereTrue = false;
  double scale = 1;
  ir::Tensor *dq, *dkT, *dv;  ///< results of the three products
};
std::optional<AttentionGrad> matchAttentionGrad(ir::Op& softmaxGrad, const GraphFacts& facts);

/// Whether an op only swaps the last two dimensions of its operand.
bool swapsLastTwo(const ir::Op& op);

}  // namespace popxl::passes
