#include "kernels/rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows_simd.cpp"
// Every target costs compile time; these two are never much better than their neighbours.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <limits>

#include "kernels/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

template <typename C>
C maxOf(const C* x, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<C>::infinity());
  // NaN as the first operand leaves the second on x86; elsewhere it may stay, and then makes the whole row
  // NaN too.
  auto a = lowest, b = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(hn::LoadU(d, x + i), a);
    b = hn::Max(hn::LoadU(d, x + i + lanes), b);
  }
  for (; i < n; i += lanes) a = hn::Max(loadTail(d, x + i, n - i, lowest), a);
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

template <typename C>
C sumOf(const C* x, int64_t n) {
  return reduceSum<C>(n, [&](auto load, auto acc) HWY_ATTR { return hn::Add(acc, load(x)); });
}

template <typename C>
C sumSquares(const C* x, C mean, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto m = hn::Set(d, mean);
  return reduceSumPadded<C>(n, mean, [&](auto load, auto acc) HWY_ATTR {
    const auto delta = hn::Sub(load(x), m);
    return hn::MulAdd(delta, delta, acc);
  });
}

template <typename C>
C dot(const C* a, const C* b, int64_t n) {
  return reduceSum<C>(n, [&](auto load, auto acc) HWY_ATTR { return hn::MulAdd(load(a), load(b), acc); });
}

template <typename C>
C expSum(const C* x, C shift, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto s = hn::Set(d, shift);
  // The pad exp(-inf - shift) is 0.
  return reduceSumPadded<C>(n, -std::numeric_limits<C>::infinity(), [&](auto load, auto acc) HWY_ATTR {
    return hn::Add(acc, expNonPositive(d, hn::Sub(load(x), s)));
  });
}

template <typename C>
void softmax(const C* x, C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<C>::infinity());
  const auto shift = hn::Set(d, maxOf(x, n));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = expNonPositive(d, hn::Sub(hn::LoadU(d, x + i), shift));
    const auto e1 = expNonPositive(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
    hn::StoreU(e0, d, y + i);
    hn::StoreU(e1, d, y + i + lanes);
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
  }
  for (; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto e = expNonPositive(d, hn::Sub(loadTail(d, x + i, left, lowest), shift));
    storeTail(e, d, y + i, left);
    sum0 = hn::Add(sum0, keepFirst(d, e, left));
  }
  const auto factor = hn::Set(d, C{1} / hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1))));
  map<C>(n, y, [&](auto load) HWY_ATTR { return hn::Mul(load(y), factor); });
}

template <typename C>
void softmaxGrad(const C* y, const C* dy, C dotted, C* dx, int64_t n) {
  const auto s = hn::Set(hn::ScalableTag<C>(), dotted);
  map<C>(n, dx, [&](auto load) HWY_ATTR { return hn::Mul(load(y), hn::Sub(load(dy), s)); });
}

template <typename C>
void logSoftmaxGrad(const C* y, const C* dy, C sum, C* dx, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto s = hn::Set(d, sum);
  map<C>(n, dx, [&](auto load) HWY_ATTR { return hn::NegMulAdd(expNonPositive(d, load(y)), s, load(dy)); });
}

template <typename C>
void add(const C* x, C c, C* y, int64_t n) {
  const auto v = hn::Set(hn::ScalableTag<C>(), c);
  map<C>(n, y, [&](auto load) HWY_ATTR { return hn::Add(load(x), v); });
}

template <typename C>
void scale(const C* x, C factor, C* y, int64_t n) {
  const auto v = hn::Set(hn::ScalableTag<C>(), factor);
  map<C>(n, y, [&](auto load) HWY_ATTR { return hn::Mul(load(x), v); });
}

template <typename C>
void axpy(C factor, const C* x, C* y, int64_t n) {
  const auto v = hn::Set(hn::ScalableTag<C>(), factor);
  map<C>(n, y, [&](auto load) HWY_ATTR { return hn::MulAdd(load(x), v, load(y)); });
}

template <typename C>
void affine(const C* x, C mean, C a, C b, C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto m = hn::Set(d, mean), va = hn::Set(d, a), vb = hn::Set(d, b);
  map<C>(n, y, [&](auto load) HWY_ATTR { return hn::MulAdd(hn::Sub(load(x), m), va, vb); });
}

template <typename C>
void affineVector(const C* x, const C* mean, const C* a, const C* b, C* y, int64_t n) {
  map<C>(n, y,
         [&](auto load) HWY_ATTR { return hn::MulAdd(hn::Sub(load(x), load(mean)), load(a), load(b)); });
}

template <typename C>
void normalise(const C* x, C mean, C inv, const C* w, const C* b, C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto m = hn::Set(d, mean), r = hn::Set(d, inv);
  map<C>(n, y,
         [&](auto load) HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(load(x), m), r), load(w), load(b)); });
}

template <typename C>
void normGradSums(const C* x, const C* dy, const C* w, C mean, C inv, C* dw, C* db, C* sums, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean), r = hn::Set(d, inv);
  auto s1 = hn::Zero(d), s2 = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto h = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), r);
    const auto g = hn::LoadU(d, dy + i);
    const auto gw = hn::Mul(g, hn::LoadU(d, w + i));
    hn::StoreU(hn::MulAdd(g, h, hn::LoadU(d, dw + i)), d, dw + i);
    hn::StoreU(hn::Add(g, hn::LoadU(d, db + i)), d, db + i);
    s1 = hn::Add(s1, gw);
    s2 = hn::MulAdd(gw, h, s2);
  }
  if (i < n) {
    const int64_t left = n - i;
    const auto zero = hn::Zero(d);
    const auto h = hn::Mul(hn::Sub(loadTail(d, x + i, left, m), m), r);
    const auto g = loadTail(d, dy + i, left, zero);
    const auto gw = hn::Mul(g, loadTail(d, w + i, left, zero));
    storeTail(hn::MulAdd(g, h, loadTail(d, dw + i, left, zero)), d, dw + i, left);
    storeTail(hn::Add(g, loadTail(d, db + i, left, zero)), d, db + i, left);
    s1 = hn::Add(s1, gw);
    s2 = hn::Add(s2, keepFirst(d, hn::Mul(gw, h), left));
  }
  sums[0] = hn::GetLane(hn::SumOfLanes(d, s1));
  sums[1] = hn::GetLane(hn::SumOfLanes(d, s2));
}

template <typename C>
void normGradInput(const C* x, const C* dy, const C* w, C mean, C inv, C c1, C c2, C* dx, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto m = hn::Set(d, mean), r = hn::Set(d, inv), v1 = hn::Set(d, c1), v2 = hn::Set(d, c2);
  map<C>(n, dx, [&](auto load) HWY_ATTR {
    const auto h = hn::Mul(hn::Sub(load(x), m), r);
    return hn::Mul(r, hn::NegMulAdd(h, v2, hn::MulSub(load(dy), load(w), v1)));
  });
}

template <typename C>
void normGradChannel(const C* x, const C* dy, C mean, C inv, C* sums, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto m = hn::Set(d, mean);
  sums[0] = sumOf(dy, n);
  // inv factors out of the sum. A tail beyond n pads x - mean with -mean and dy with 0.
  sums[1] = inv * reduceSum<C>(n, [&](auto load, auto acc)
                                      HWY_ATTR { return hn::MulAdd(hn::Sub(load(x), m), load(dy), acc); });
}

template <typename C>
void normGradChannelInput(const C* x, const C* dy, C w, C mean, C inv, C c1, C c2, C* dx, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto vw = hn::Set(d, w), m = hn::Set(d, mean), r = hn::Set(d, inv), v1 = hn::Set(d, c1),
             v2 = hn::Set(d, c2);
  map<C>(n, dx, [&](auto load) HWY_ATTR {
    const auto h = hn::Mul(hn::Sub(load(x), m), r);
    return hn::Mul(r, hn::NegMulAdd(h, v2, hn::MulSub(load(dy), vw, v1)));
  });
}

template <typename C>
const RowOps<C>* makeTable() {
  static constexpr RowOps<C> kTable = {
      maxOf<C>,         sumOf<C>,           sumSquares<C>,           dot<C>,       expSum<C>,
      softmax<C>,       softmaxGrad<C>,     logSoftmaxGrad<C>,       add<C>,       scale<C>,
      axpy<C>,          affine<C>,          affineVector<C>,         normalise<C>, normGradSums<C>,
      normGradInput<C>, normGradChannel<C>, normGradChannelInput<C>,
  };
  return &kTable;
}

const RowOps<float>* floatTable() { return makeTable<float>(); }
const RowOps<double>* doubleTable() { return makeTable<double>(); }

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(floatTable);
HWY_EXPORT(doubleTable);

template <>
const RowOps<float>& rowOps<float>() {
  static const RowOps<float>* const table = HWY_DYNAMIC_DISPATCH(floatTable)();
  return *table;
}

template <>
const RowOps<double>& rowOps<double>() {
  static const RowOps<double>* const table = HWY_DYNAMIC_DISPATCH(doubleTable)();
  return *table;
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
