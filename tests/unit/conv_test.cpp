#include "kernels/conv.h"

#include <array>

#include "base/error.h"
#include "dense_test.h"

namespace popxl::test {
namespace {

using kernels::ConvSpec;

enum class Direction { kForward, kGradInput, kGradWeight };
constexpr std::array kDirections{Direction::kForward, Direction::kGradInput, Direction::kGradWeight};

/// Calls fn(input, weights, output) with row-major indices of every product of the convolution.
template <typename Fn>
void forProducts(const ConvSpec& s, const Fn& fn) {
  const auto& in = s.input.shape;
  const auto& w = s.weights.shape;
  const auto& out = s.output.shape;
  const size_t dims = s.strides.size();
  const int64_t kernel = numElements(std::span(w).subspan(2)),
                positions = numElements(std::span(out).subspan(2));
  const int64_t volume = numElements(std::span(in).subspan(2));
  for (int64_t n = 0; n < in[0]; ++n) {
    for (int64_t o = 0; o < w[0]; ++o) {
      const int64_t group = o / (w[0] / s.groups);
      for (int64_t c = 0; c < w[1]; ++c) {
        for (int64_t k = 0; k < kernel; ++k) {
          for (int64_t p = 0; p < positions; ++p) {
            int64_t restK = k, restP = p, offset = 0, step = 1;
            bool inside = true;
            for (size_t d = dims; d-- > 0;) {
              const int64_t x =
                  restP % out[d + 2] * s.strides[d] - s.padsBegin[d] + restK % w[d + 2] * s.dilations[d];
              restP /= out[d + 2];
              restK /= w[d + 2];
              inside = inside && x >= 0 && x < in[d + 2];
              offset += x * step;
              step *= in[d + 2];
            }
            if (!inside) continue;
            fn((n * in[1] + group * w[1] + c) * volume + offset, (o * w[1] + c) * kernel + k,
               (n * w[0] + o) * positions + p);
          }
        }
      }
    }
  }
}

/// The operands of one direction as indices into {input, weights, output}: first, second, result.
std::array<size_t, 3> rolesOf(Direction d) {
  if (d == Direction::kForward) return {0, 1, 2};
  if (d == Direction::kGradInput) return {2, 1, 0};
  return {0, 2, 1};
}

void checkValues(const ConvSpec& spec, const std::array<size_t, 3>& roles, const Tensor& a, const Tensor& b,
                 const Tensor& result, int scale) {
  const auto count = static_cast<size_t>(result.layout.numElements());
  std::vector<double> sums(count, 0.0);
  std::vector<uint64_t> whole(count, 0);
  std::vector<int64_t> terms(count, 0);
  const bool integer = isInt(result.layout.dtype);
  std::vector<double> left, right;
  for (int64_t i = 0; !integer && i < a.layout.numElements(); ++i) left.push_back(get(a, i));
  for (int64_t i = 0; !integer && i < b.layout.numElements(); ++i) right.push_back(get(b, i));
  forProducts(spec, [&](int64_t in, int64_t w, int64_t out) {
    const std::array<int64_t, 3> at{in, w, out};
    const auto to = static_cast<size_t>(at[roles[2]]);
    terms[to] += 1;
    if (integer) {
      whole[to] += getInt(a, at[roles[0]]) * getInt(b, at[roles[1]]);
    } else {
      sums[to] += left[static_cast<size_t>(at[roles[0]])] * right[static_cast<size_t>(at[roles[1]])];
    }
  });
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<int64_t>(i);
    if (integer) {
      ASSERT_EQ(getInt(result, at), wrapTo(result.layout.dtype, whole[i])) << "at " << i;
    } else {
      const double expected = std::ldexp(sums[i], scale);
      const double tolerance = toleranceOf(a.layout, b.layout, result.layout.dtype, terms[i], expected);
      ASSERT_NEAR(get(result, at), expected, tolerance * std::ldexp(1.0, std::max(scale, 0))) << "at " << i;
    }
  }
}

kernels::KernelPtr makeKernel(const ConvSpec& spec, Direction d) {
  if (d == Direction::kForward) return makeConv(spec);
  return d == Direction::kGradInput ? makeConvGradInput(spec) : makeConvGradWeight(spec);
}

void check(std::mt19937& rng, const ConvSpec& spec, Direction direction) {
  const kernels::KernelPtr kernel = makeKernel(spec, direction);
  SCOPED_TRACE(kernel->describe() + " groups " + std::to_string(spec.groups) + " strides " +
               toString(spec.strides) + " pads " + toString(spec.padsBegin) + toString(spec.padsEnd) +
               " dilations " + toString(spec.dilations) + " layouts " + toString(spec.input.strides) +
               toString(spec.weights.strides) + toString(spec.output.strides));
  const auto roles = rolesOf(direction);
  const std::array<const Layout*, 3> layouts{&spec.input, &spec.weights, &spec.output};
  const Tensor a = randomTensor(rng, *layouts[roles[0]]), b = randomTensor(rng, *layouts[roles[1]]);
  Tensor result = makeTensor(*layouts[roles[2]]), left = a, right = b;
  int32_t scale = spec.scaled ? static_cast<int32_t>(rng() % 7) - 3 : 0;
  std::vector<std::byte*> inputs{left.data(), right.data()};
  if (spec.scaled) inputs.push_back(reinterpret_cast<std::byte*>(&scale));
  auto operands = inputs;
  operands.push_back(result.data());
  runKernel(*kernel, operands);
  EXPECT_EQ(left.memory, a.memory);
  EXPECT_EQ(right.memory, b.memory);
  checkValues(spec, roles, a, b, result, scale);
  expectSameBits(*kernel, inputs, result);
}

struct Sizes {
  int64_t batch, in, out, groups;
  Shape image, kernel, strides, begin, end, dilations;
};

/// Dense layouts of the three tensors; the output's size by the floor rule.
ConvSpec specOf(const Sizes& s, DType dtype) {
  Shape input{s.batch, s.in}, weights{s.out, s.in / s.groups}, output{s.batch, s.out};
  for (size_t d = 0; d < s.image.size(); ++d) {
    input.push_back(s.image[d]);
    weights.push_back(s.kernel[d]);
    const int64_t window = (s.kernel[d] - 1) * s.dilations[d] + 1;
    output.push_back((s.image[d] + s.begin[d] + s.end[d] - window) / s.strides[d] + 1);
  }
  return {Layout(dtype, input),
          Layout(dtype, weights),
          Layout(dtype, output),
          s.strides,
          s.begin,
          s.end,
          s.dilations,
          s.groups,
          false};
}

Sizes plainSizes(int64_t batch, int64_t in, int64_t out, int64_t image, int64_t kernel, int64_t pad,
                 int64_t stride) {
  return {batch,      in,         out,   1, {image, image}, {kernel, kernel}, {stride, stride},
          {pad, pad}, {pad, pad}, {1, 1}};
}

Sizes randomSizes(std::mt19937& rng) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  Sizes s{};
  s.batch = 1 + below(4);
  s.groups = below(3) == 0 ? 1 + below(4) : 1;
  const bool blocked = below(3) == 0;  // multiples of the library's blocks
  s.in = s.groups * (blocked ? 16 : 1 + below(9));
  s.out = s.groups * (blocked ? 16 : 1 + below(9));
  const int64_t dims = 1 + below(3);
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t kernel = 1 + below(3), dilation = below(3) == 0 ? 2 : 1;
    s.kernel.push_back(kernel);
    s.dilations.push_back(dilation);
    s.strides.push_back(1 + below(3));
    s.begin.push_back(below(3));
    s.end.push_back(below(3));
    s.image.push_back((kernel - 1) * dilation + 1 + below(dims == 3 ? 4 : 9));
  }
  return s;
}

void lieChannelsLast(ConvSpec& spec) {
  for (Layout* l : {&spec.input, &spec.output}) l->strides = channelsLastStrides(l->shape);
}

TEST(Conv, RandomSizesStridesAndTypes) {
  std::mt19937 rng(testSeed());
  const std::vector<DType> types{DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat32,
                                 DType::kFloat16, DType::kFloat64, DType::kInt32,   DType::kInt64,
                                 DType::kInt8,    DType::kUInt16};
  for (int run = 0; run < 300; ++run) {
    const DType type = types[rng() % types.size()];
    for (Direction direction : kDirections) {
      ConvSpec spec = specOf(randomSizes(rng), type);
      if (rng() % 3 == 0) {
        const auto result = rolesOf(direction)[2];
        spec.input = randomLayout(rng, type, spec.input.shape, result != 0);
        spec.weights = randomLayout(rng, type, spec.weights.shape, result != 1);
        spec.output = randomLayout(rng, type, spec.output.shape, result != 2);
      }
      if (rng() % 3 == 0) lieChannelsLast(spec);
      check(rng, spec, direction);
      if (HasFailure()) return;
    }
  }
}

TEST(Conv, LayersOfRealNetworks) {
  std::mt19937 rng(testSeed());
  for (const Sizes& s : {plainSizes(32, 1, 8, 28, 5, 2, 1), plainSizes(32, 1, 16, 28, 3, 1, 1),
                         plainSizes(24, 8, 16, 14, 5, 2, 1), plainSizes(32, 16, 32, 14, 3, 1, 1),
                         plainSizes(2, 3, 16, 64, 7, 3, 2), plainSizes(1, 64, 64, 28, 3, 1, 1),
                         plainSizes(1, 64, 128, 14, 1, 0, 1), plainSizes(2, 64, 64, 14, 1, 0, 2),
                         plainSizes(3, 48, 32, 9, 3, 1, 1), plainSizes(1, 64, 128, 28, 1, 0, 1)}) {
    for (DType type : {DType::kFloat32, DType::kFloat16}) {
      for (Direction direction : kDirections) {
        check(rng, specOf(s, type), direction);
        ConvSpec last = specOf(s, type);
        lieChannelsLast(last);
        check(rng, last, direction);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Conv, Depthwise) {
  std::mt19937 rng(testSeed());
  Sizes s = plainSizes(4, 32, 32, 12, 3, 1, 1);
  s.groups = 32;
  for (Direction direction : kDirections) check(rng, specOf(s, DType::kFloat32), direction);
}

TEST(Conv, Float8GivesFloat16) {
  std::mt19937 rng(testSeed());
  for (Direction direction : {Direction::kForward, Direction::kGradInput}) {
    for (bool scaled : {false, true}) {
      ConvSpec spec = specOf(plainSizes(2, 8, 16, 8, 3, 1, 1), DType::kFloat8_143);
      spec.weights.dtype = DType::kFloat8_152;
      (direction == Direction::kForward ? spec.output : spec.input).dtype = DType::kFloat16;
      spec.scaled = scaled;
      check(rng, spec, direction);
    }
  }
}

TEST(Conv, CroppedAndTransposedSizes) {
  std::mt19937 rng(testSeed());
  Sizes cropped = plainSizes(2, 3, 4, 9, 3, 0, 1);
  cropped.begin = {-1, 0};
  cropped.end = {0, -2};
  for (Direction direction : kDirections) check(rng, specOf(cropped, DType::kFloat32), direction);
  // A transposed convolution with output padding: more input than the windows cover.
  ConvSpec spec = specOf(plainSizes(2, 8, 16, 9, 3, 0, 2), DType::kFloat32);
  spec.input = Layout(DType::kFloat32, {2, 8, 12, 12});
  check(rng, spec, Direction::kGradInput);
}

TEST(Conv, EmptyDimensionsGiveZeros) {
  std::mt19937 rng(testSeed());
  for (Direction direction : kDirections) {
    ConvSpec spec = specOf(plainSizes(0, 3, 4, 9, 3, 0, 1), DType::kFloat32);
    check(rng, spec, direction);
  }
}

TEST(Conv, DoesNotTakeOtherTypes) {
  ConvSpec spec = specOf(plainSizes(2, 3, 4, 9, 3, 0, 1), DType::kBool);
  EXPECT_THROW(makeConv(spec), Error);
  spec = specOf(plainSizes(2, 3, 4, 9, 3, 0, 1), DType::kFloat32);
  spec.weights.dtype = DType::kFloat16;
  EXPECT_THROW(makeConv(spec), Error);
}

}  // namespace
}  // namespace popxl::test
