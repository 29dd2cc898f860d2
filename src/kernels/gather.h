#pragma once

#include <optional>
#include <vector>

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

// Indices may have any integer dtype and any shape. Memory outside an operand is never read or written: an
// index outside [0, size) is moved to the nearest valid one unless a function says otherwise.

/// Operands: t, indices, out. out.shape = t.shape[:axis] + indices.shape + t.shape[axis+1:]; any dtype. With
/// zeroOutOfRange, an index outside [0, size) gives zeros. An empty t gives zeros.
KernelPtr makeGather(const Layout& t, const Layout& indices, const Layout& out, int64_t axis,
                     bool zeroOutOfRange = false);
/// Operands: dy, indices, dt. dt = 0, then dt[..., indices[j], ...] += dy[..., j, ...] in the order of j;
/// dtypes float16 (added up in float32), float32, float64 and 32- or 64-bit integers. Out of range: as in
/// makeGather, or dropped. With `grouped` the gradient of makeGroupedGather.
KernelPtr makeGatherGrad(const Layout& dy, const Layout& indices, Layout dt, int64_t axis,
                         bool zeroOutOfRange = false, bool grouped = false);
/// Operands: t, indices, values, out. out = t, then out[indices[j], ...] += factor * values[j, ...] on
/// `axis`, in the order of j; out may be t's memory. values have t's dtype, or are float32 where t is
/// float16.
KernelPtr makeScatterAdd(const Layout& t, const Layout& indices, const Layout& values, const Layout& out,
                         int64_t axis, double factor = 1.0);
/// Operands: groups of t, indices, out: t [G, ...], indices [G, ...], each group gathered on its own `axis`
/// (of t, >= 1).
KernelPtr makeGroupedGather(const Layout& t, const Layout& indices, const Layout& out, int64_t axis,
                            bool zeroOutOfRange = false);

/// Operands: t, indices, values, out. out = t, then out[.., indices[p], ..] = values[p] on `axis` for every
/// position p of values in row-major order (the last one wins). indices and values have one shape, of t's
/// rank and nowhere larger than t outside the axis. Any dtype. out may be t's memory. Positions whose index
/// is out of range are dropped; a negative index counts from the end.
KernelPtr makeScatter(Layout t, Layout indices, Layout values, Layout out, int64_t axis);

enum class ScatterReduction : uint8_t { kSum, kMax, kMin, kMul, kNone };
/// Operands: data, indices, [initial], out. Like makeScatter with the combination given, onto `initial`
/// (out's layout, element (row-major) order fixed) or without it 0 for kSum and kNone, 1 for kMul, and for
/// kMax and kMin the reduced values alone with 0 where nothing arrives. indices has data's shape (stride 0
/// where broadcast). Out of range: dropped.
KernelPtr makeScatterReduce(Layout data, Layout indices, std::optional<Layout> initial, Layout out,
                            int64_t axis, ScatterReduction reduction);

/// Operands: t, indices, out. out[p] = t[.., indices[p], ..] on `axis` at every position p of indices, out's
/// shape: the gradient of makeScatter and of makeScatterReduce with respect to the values. Any dtype. Out of
/// range: 0.
struct PickRule {
  bool lastOnly = false;      ///< 0 also where a later position has the same target
  bool negativeWraps = true;  ///< whether a negative index counts from the end
};
KernelPtr makeScatterPick(Layout t, Layout indices, Layout out, int64_t axis, PickRule rule);

/// Operands: indices, values ([2]: off, on), out. out.shape = indices.shape with the classes inserted at
/// `axis` of out. A negative index counts from the end; one outside [-classes, classes) sets nothing.
KernelPtr makeOnehot(Layout indices, Layout values, Layout out, int64_t axis);

// Windows whose place is read at run time: `index` has one element per entry of `axes`; each is clamped to
// [0, size - window size].

/// Operands: t, index, out. The window of out's shape.
KernelPtr makeDynamicSlice(const Layout& t, const Layout& index, const std::vector<int64_t>& axes,
                           const Layout& out);
/// Operands: t, index, v, out. out = t with the window replaced by v; out may be t's memory.
KernelPtr makeDynamicUpdate(Layout t, const Layout& index, const std::vector<int64_t>& axes, Layout v,
                            const Layout& out);
/// Operands: index, v, out. out = 0 with the window replaced by v: the gradient of makeDynamicSlice.
KernelPtr makeDynamicPad(const Layout& index, const std::vector<int64_t>& axes, Layout v, const Layout& out);
/// Operands: t, index, out. out = t with a window of shape `window` set to 0; out may be t's memory.
KernelPtr makeDynamicZero(Layout t, const Layout& index, const std::vector<int64_t>& axes,
                          const Shape& window, const Layout& out);

}  // namespace popxl::kernels
