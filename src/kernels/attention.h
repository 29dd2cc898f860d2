#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace popxl::kernels {

/// Attention of every head at once: P = softmax(mask(scale * q k^T)) over the last axis, out = P v. The
/// scores of some query rows at a time stay in cache; heads are read and written where they lie, whatever the
/// strides.
///
/// All operands have one dtype, float16, float32 or float64, except `keep`, which is bool. Sums are in
/// float32 or float64. The leading dimensions are those of `out`; inputs broadcast to them as NumPy's do.
struct AttentionSpec {
  Layout q;                             ///< [..., rows, width]
  Layout k;                             ///< [..., columns, width]
  Layout v;                             ///< [..., columns, depth]
  std::optional<Layout> bias;           ///< added to the scaled scores; broadcasts to [..., rows, columns]
  std::optional<Layout> keep;           ///< scores are `fill` where it is false; broadcasts likewise
  Layout out;                           ///< [..., rows, depth]
  std::optional<Layout> probabilities;  ///< [..., rows, columns]: P is written here too
  double scale = 1, fill = 0;
};

/// Operands: q, k, v, [bias], [keep], out, [probabilities].
KernelPtr makeAttention(AttentionSpec spec);

/// Gradient of attention from P and the gradient of out: with dP = grad v^T, the scores have the gradient
/// dS = P (dP - sum(P dP)), 0 where `keep` is false; dq = scale dS k, dk = scale dS^T q, dv = P^T grad.
/// The leading dimensions are the same for all but `keep`.
struct AttentionGradSpec {
  Layout q, k, v;
  Layout probabilities;  ///< [..., rows, columns]
  Layout grad;           ///< [..., rows, depth]
  std::optional<Layout> keep;
  Layout dq, dk, dv;
  double scale = 1;
};

/// Operands: q, k, v, probabilities, grad, [keep], dq, dk, dv.
KernelPtr makeAttentionGrad(AttentionGradSpec spec);

}  // namespace popxl::kernels
