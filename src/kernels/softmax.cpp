#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// A function of whole rows: ins[0..kIns) of length n each to out of length outLength, in the compute type.
template <typename T, int kIns, typename Fn>
class RowKernel : public Kernel {
 public:
  using C = ComputeOf<T>;

  RowKernel(const Layout& x, int64_t outLength, Fn fn, std::string name)
      : n_(x.shape.back()),
        outLength_(outLength < 0 ? n_ : outLength),
        chunks_(n_ == 0 ? 0 : x.numElements() / n_, 4 * n_),
        streams_(streamsRows<T>(chunks_.rows, outLength_)),
        fn_(fn),
        name_(std::move(name)) {}

  void run(std::span<std::byte* const> operands) const override {
    const auto ins = operands.first(kIns);
    const bool streams = streams_ && std::find(ins.begin(), ins.end(), operands[kIns]) == ins.end();
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      C* buffer = nullptr;
      if (kConverts || streams_) buffer = reinterpret_cast<C*>(operands[kIns + 1] + chunk * bufferBytes());
      T* const out = reinterpret_cast<T*>(operands[kIns]);
      for (int64_t row = chunks_.begin(chunk); row < chunks_.end(chunk); ++row) {
        const C* in[kIns];
        for (int i = 0; i < kIns; ++i) {
          in[i] = loadRow(reinterpret_cast<const T*>(operands[static_cast<size_t>(i)]) + row * n_,
                          slot(buffer, i), n_);
        }
        T* const to = out + row * outLength_;
        C* const target = streams ? buffer : rowTarget(to, slot(buffer, kIns));
        fn_(in, target, n_);
        streams ? streamRow(target, to, outLength_) : storeRow(target, to, outLength_);
      }
      if (streams) simd::flushStream();
    });
  }
  int64_t scratchBytes() const override { return kConverts || streams_ ? chunks_.chunks * bufferBytes() : 0; }
  double flops() const override { return 8.0 * static_cast<double>(chunks_.rows * n_); }
  std::string describe() const override { return name_; }

 private:
  static constexpr bool kConverts = std::is_same_v<T, Half>;
  C* slot(C* buffer, int i) const {
    if constexpr (kConverts) return buffer + i * n_;
    return buffer;
  }
  int64_t bufferBytes() const {
    return lines(((kConverts ? kIns * n_ : 0) + outLength_) * static_cast<int64_t>(sizeof(C)));
  }

  int64_t n_, outLength_;
  RowChunks chunks_;
  bool streams_;
  Fn fn_;
  std::string name_;
};

template <int kIns, typename Fn>
KernelPtr makeRows(std::vector<Layout> ins, Layout out, int64_t axis, bool reduces, const char* what,
                   const Fn& fn) {
  const int64_t rank = ins[0].rank();
  POPXL_ASSERT(rank > 0, "{} of a scalar", what);
  const Shape shape = ins[0].shape;
  for (Layout& in : ins) {
    POPXL_ASSERT(in.dtype == out.dtype && in.shape == shape, "{} operands {} {} and {} {}", what,
                 nameOf(in.dtype), toString(in.shape), nameOf(out.dtype), toString(out.shape));
    in = axisLast(in, axis);
  }
  out = axisLast(out, axis);
  const std::string name = fmt::format("{} {} {}", what, nameOf(out.dtype), toString(shape));
  return withContiguous(ins, {out}, [&](const std::vector<Layout>& layouts) {
    return dispatchFloat(out.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<RowKernel<T, kIns, Fn>>(layouts[0], reduces ? 1 : -1, fn, name);
    });
  });
}

template <typename C>
C logSumExp(const C* x, int64_t n) {
  const auto& ops = simd::rowOps<C>();
  const C most = ops.max(x, n);
  if (std::isinf(most)) {  // -inf throughout, or +inf somewhere; NaN wins over both
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(x[i])) return x[i];
    }
    return most;
  }
  return most + std::log(ops.expSum(x, most, n));
}

}  // namespace

KernelPtr makeSoftmax(Layout x, Layout y, int64_t axis) {
  return makeRows<1>({std::move(x)}, std::move(y), axis, false, "softmax",
                     [](const auto* const* in, auto* out, int64_t n) {
                       simd::rowOps<std::remove_reference_t<decltype(*out)>>().softmax(in[0], out, n);
                     });
}

KernelPtr makeLogSoftmax(Layout x, Layout y, int64_t axis) {
  return makeRows<1>({std::move(x)}, std::move(y), axis, false, "log softmax",
                     [](const auto* const* in, auto* out, int64_t n) {
                       const auto& ops = simd::rowOps<std::remove_reference_t<decltype(*out)>>();
                       const auto most = ops.max(in[0], n);
                       const auto shift = std::log(ops.expSum(in[0], most, n));
                       ops.add(in[0], -most, out, n);
                       ops.add(out, -shift, out, n);
                     });
}

KernelPtr makeSoftmaxGrad(Layout y, Layout dy, Layout dx, int64_t axis) {
  return makeRows<2>({std::move(y), std::move(dy)}, std::move(dx), axis, false, "softmax gradient",
                     [](const auto* const* in, auto* out, int64_t n) {
                       const auto& ops = simd::rowOps<std::remove_reference_t<decltype(*out)>>();
                       ops.softmaxGrad(in[0], in[1], ops.dot(in[0], in[1], n), out, n);
                     });
}

KernelPtr makeLogSoftmaxGrad(Layout y, Layout dy, Layout dx, int64_t axis) {
  return makeRows<2>({std::move(y), std::move(dy)}, std::move(dx), axis, false, "log softmax gradient",
                     [](const auto* const* in, auto* out, int64_t n) {
                       const auto& ops = simd::rowOps<std::remove_reference_t<decltype(*out)>>();
                       ops.logSoftmaxGrad(in[0], in[1], ops.sum(in[1], n), out, n);
                     });
}

KernelPtr makeLogSumExp(Layout x, Layout out, int64_t axis) {
  return makeRows<1>({std::move(x)}, std::move(out), axis, true, "log sum exp",
                     [](const auto* const* in, auto* result, int64_t n) { *result = logSumExp(in[0], n); });
}

}  // namespace popxl::kernels
