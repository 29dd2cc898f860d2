#pragma once

#include <optional>

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

enum class LossReduction : uint8_t { kNone, kSum, kMean };

/// Negative log likelihood of `labels` under `probs`.
///
/// probs: [..., classes] of float16, float32 or float64. labels: one per row, of any integer or float dtype.
/// loss: one element per row for kNone, one element otherwise, of any float dtype of those. kMean divides by
/// the number of rows whose label is not ignoreIndex (by 1 if there is none). An ignored row has loss 0. Any
/// other label outside [0, classes) makes its loss (and so the reduced loss) and its row of a gradient NaN;
/// memory outside probs is never read. Without logProb the loss is -log(max(p, t)), t the smallest positive
/// normal number of probs' dtype, so that it is finite.
struct NllSpec {
  Layout probs;
  Layout labels;
  Layout loss;
  LossReduction reduction = LossReduction::kMean;
  std::optional<int64_t> ignoreIndex;
  bool logProb = false;
};

/// Operands: probs, labels, loss.
KernelPtr makeNll(NllSpec spec);
/// Gradient with respect to probs; spec.loss is the layout of dloss. Operands: probs, labels, dloss, dprobs.
/// -scale / max(p, t) (-scale when logProb) at the label, 0 elsewhere; scale is dloss, divided by the count
/// for kMean.
KernelPtr makeNllGrad(NllSpec spec, Layout dprobs);
/// The loss and, for probs = softmax(x), its gradient with respect to x at once. Operands: probs, labels,
/// lossGrad, loss, dx. lossGrad has one element or (kNone) one per row, any float dtype. dx = (probs -
/// onehot(label)) * scale, 0 in ignored rows; scale as for makeNllGrad. dx may be the memory of probs.
/// logProb must be false.
KernelPtr makeNllWithSoftmaxGrad(NllSpec spec, Layout lossGrad, Layout dx);

}  // namespace popxl::kernels
