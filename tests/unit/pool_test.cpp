#include "kernels/pool.h"

#include <algorithm>

#include "base/error.h"
#include "dense_test.h"

namespace popxl::test {
namespace {

using kernels::PoolSpec;

/// Input positions of the window of output position `p`, as offsets into a dense plane, in row-major window
/// order.
std::vector<int64_t> windowOf(const PoolSpec& s, int64_t p) {
  const size_t dims = s.kernel.size();
  std::vector<int64_t> result;
  for (int64_t k = 0; k < numElements(s.kernel); ++k) {
    int64_t restK = k, restP = p, offset = 0, step = 1;
    bool inside = true;
    for (size_t d = dims; d-- > 0;) {
      const int64_t in = s.input.shape[d + 2], out = s.output.shape[d + 2];
      const int64_t x = restP % out * s.strides[d] - s.padsBegin[d] + restK % s.kernel[d] * s.dilations[d];
      restP /= out;
      restK /= s.kernel[d];
      inside = inside && x >= 0 && x < in;
      offset += x * step;
      step *= in;
    }
    if (inside) result.push_back(offset);
  }
  return result;
}

/// Calls fn(index of the output, indices of the window's inputs) for each output.
template <typename Fn>
void forOutputs(const PoolSpec& s, const Fn& fn) {
  const int64_t in = numElements(std::span(s.input.shape).subspan(2));
  const int64_t out = numElements(std::span(s.output.shape).subspan(2));
  for (int64_t plane = 0; plane < s.input.shape[0] * s.input.shape[1]; ++plane) {
    for (int64_t p = 0; p < out; ++p) {
      std::vector<int64_t> window = windowOf(s, p);
      for (int64_t& x : window) x += plane * in;
      fn(plane * out + p, window);
    }
  }
}

void expectNear(const Tensor& result, int64_t index, double expected) {
  const double bound = result.layout.dtype == DType::kFloat64   ? 1e-14
                       : result.layout.dtype == DType::kFloat32 ? 1e-5
                                                                : std::fabs(expected) * 5e-4 + 1e-5;
  ASSERT_NEAR(get(result, index), expected, bound) << "at " << index;
}

void checkMax(const PoolSpec& spec, const Tensor& x, const Tensor& y) {
  forOutputs(spec, [&](int64_t out, const std::vector<int64_t>& window) {
    if (window.empty()) return;
    if (isInt(spec.input.dtype)) {
      uint64_t best = getInt(x, window[0]);
      for (int64_t at : window) {
        const uint64_t v = getInt(x, at);
        const bool more =
            isSigned(spec.input.dtype) ? static_cast<int64_t>(v) > static_cast<int64_t>(best) : v > best;
        best = more ? v : best;
      }
      ASSERT_EQ(getInt(y, out), best) << "at " << out;
      return;
    }
    double best = get(x, window[0]);
    for (int64_t at : window) best = std::isnan(get(x, at)) ? get(x, at) : std::max(best, get(x, at));
    for (int64_t at : window) best = std::isnan(get(x, at)) ? get(x, at) : best;
    if (std::isnan(best)) {
      ASSERT_TRUE(std::isnan(get(y, out))) << "at " << out;
    } else {
      ASSERT_EQ(get(y, out), best) << "at " << out;
    }
  });
}

void checkAverage(const PoolSpec& spec, const Tensor& x, const Tensor& y) {
  forOutputs(spec, [&](int64_t out, const std::vector<int64_t>& window) {
    double sum = 0;
    for (int64_t at : window) sum += get(x, at);
    expectNear(y, out, window.empty() ? 0 : sum / static_cast<double>(window.size()));
  });
}

void checkGrad(const PoolSpec& spec, const Tensor* x, const Tensor* y, const Tensor& dy, const Tensor& dx) {
  std::vector<double> sums(static_cast<size_t>(spec.input.numElements()), 0.0);
  forOutputs(spec, [&](int64_t out, const std::vector<int64_t>& window) {
    for (int64_t at : window) {
      if (x == nullptr) {
        sums[static_cast<size_t>(at)] += get(dy, out) / static_cast<double>(window.size());
      } else if (get(*x, at) == get(*y, out) || (std::isnan(get(*x, at)) && std::isnan(get(*y, out)))) {
        sums[static_cast<size_t>(at)] += get(dy, out);
        break;
      }
    }
  });
  for (int64_t i = 0; i < spec.input.numElements(); ++i) expectNear(dx, i, sums[static_cast<size_t>(i)]);
}

Tensor runTo(const kernels::Kernel& kernel, const std::vector<std::byte*>& inputs, const Layout& result) {
  Tensor out = makeTensor(result);
  auto operands = inputs;
  operands.push_back(out.data());
  runKernel(kernel, operands);
  expectSameBits(kernel, inputs, out);
  return out;
}

/// Few distinct values, so that ties are common; sometimes a NaN.
void coarsen(std::mt19937& rng, Tensor& t) {
  for (int64_t i = 0; i < spanOf(t.layout); ++i) {
    const float v = rng() % 50 == 0 ? std::nanf("") : static_cast<float>(rng() % 5) - 2;
    std::byte* p = t.data() + i * sizeOf(t.layout.dtype);
    if (t.layout.dtype == DType::kFloat32) std::memcpy(p, &v, 4);
    const uint16_t half = floatToHalf(v);
    if (t.layout.dtype == DType::kFloat16) std::memcpy(p, &half, 2);
  }
}

bool sharesElements(const Layout& l) {
  for (size_t d = 0; d < l.shape.size(); ++d) {
    if (l.shape[d] > 1 && l.strides[d] == 0) return true;
  }
  return false;
}

void check(std::mt19937& rng, PoolSpec spec) {
  const DType type = spec.input.dtype;
  Tensor x = randomTensor(rng, spec.input);
  SCOPED_TRACE(std::string(nameOf(type)) + toString(spec.input.shape) + toString(spec.output.shape) +
               " kernel " + toString(spec.kernel) + " strides " + toString(spec.strides) + " pads " +
               toString(spec.padsBegin) + " dilations " + toString(spec.dilations));
  if (isFloat(type)) {
    spec.average = true;
    const Tensor y = runTo(*makePool(spec), {x.data()}, spec.output);
    checkAverage(spec, x, y);
    Tensor dy = randomTensor(rng, spec.output);
    Layout dense(type, spec.input.shape);
    PoolSpec grad = spec;
    grad.input = dense;
    checkGrad(grad, nullptr, nullptr, dy, runTo(*makeAveragePoolGrad(grad), {dy.data()}, dense));
  }
  spec.average = false;
  if (rng() % 2 == 0) coarsen(rng, x);
  Tensor y = runTo(*makePool(spec), {x.data()}, spec.output);
  checkMax(spec, x, y);
  // The gradient lies as the input, so elements of the input must not share memory.
  if (!isFloat(type) || sharesElements(spec.input)) return;
  Tensor dy = randomTensor(rng, spec.output);
  checkGrad(spec, &x, &y, dy, runTo(*makeMaxPoolGrad(spec), {x.data(), y.data(), dy.data()}, spec.input));
}

PoolSpec randomSpec(std::mt19937& rng, DType type) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  PoolSpec s;
  Shape in{1 + below(3), 1 + below(4)};
  Shape out = in;
  const int64_t dims = 1 + below(3);
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t kernel = 1 + below(3), dilation = below(3) == 0 ? 2 : 1, stride = 1 + below(3);
    const int64_t window = (kernel - 1) * dilation + 1, size = window + below(dims == 3 ? 5 : 20);
    const int64_t begin = below(window), end = below(window);
    const int64_t room = size + begin + end - window;
    s.kernel.push_back(kernel);
    s.dilations.push_back(dilation);
    s.strides.push_back(stride);
    s.padsBegin.push_back(begin);
    s.padsEnd.push_back(end);
    in.push_back(size);
    out.push_back((room + (below(2) == 0 ? stride - 1 : 0)) / stride + 1);
  }
  s.input = randomLayout(rng, type, in, true);
  s.output = randomLayout(rng, type, out, false);
  return s;
}

TEST(Pool, RandomSizesStridesAndTypes) {
  std::mt19937 rng(testSeed());
  const std::vector<DType> types{DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat16,
                                 DType::kFloat64, DType::kInt8,    DType::kUInt16,  DType::kInt32,
                                 DType::kInt64,   DType::kUInt64};
  for (int run = 0; run < 600; ++run) {
    check(rng, randomSpec(rng, types[rng() % types.size()]));
    if (HasFailure()) return;
  }
}

TEST(Pool, LargeEnoughToBeCut) {
  std::mt19937 rng(testSeed());
  for (DType type : {DType::kFloat32, DType::kFloat16}) {
    for (int64_t kernel : {2, 3}) {
      const int64_t out = (24 - kernel) / 2 + 1;
      check(rng, {Layout(type, {32, 16, 24, 24}),
                  Layout(type, {32, 16, out, out}),
                  {kernel, kernel},
                  {2, 2},
                  {0, 0},
                  {0, 0},
                  {1, 1},
                  false});
    }
  }
}

TEST(Pool, ChannelsLast) {
  std::mt19937 rng(testSeed());
  for (int run = 0; run < 200; ++run) {
    PoolSpec spec = randomSpec(rng, DType::kFloat32);
    spec.input.shape[1] = spec.output.shape[1] = 1 + static_cast<int64_t>(rng() % 70);
    for (Layout* l : {&spec.input, &spec.output}) l->strides = channelsLastStrides(l->shape);
    check(rng, spec);
    spec.average = true;
    Tensor dy = randomTensor(rng, spec.output);
    checkGrad(spec, nullptr, nullptr, dy, runTo(*makeAveragePoolGrad(spec), {dy.data()}, spec.input));
    if (HasFailure()) return;
  }
}

TEST(Pool, DoesNotTakeOtherTypes) {
  PoolSpec spec{
      Layout(DType::kInt32, {1, 1, 4}), Layout(DType::kInt32, {1, 1, 2}), {2}, {2}, {0}, {0}, {1}, true};
  EXPECT_THROW(makePool(spec), Error);
  EXPECT_THROW(makeMaxPoolGrad(spec), Error);
}

}  // namespace
}  // namespace popxl::test
