#include "kernels/pool.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/pool_channels_last.h"
#include "kernels/pool_simd.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

using dense::Carver;
using simd::PoolPass;
using simd::PoolSizes;

constexpr std::array kNames{"max pool", "average pool", "max pool gradient", "average pool gradient"};

std::array<int64_t, 3> spatial(std::span<const int64_t> values, int64_t missing) {
  std::array<int64_t, 3> result{missing, missing, missing};
  std::copy(values.begin(), values.end(), result.begin() + static_cast<std::ptrdiff_t>(3 - values.size()));
  return result;
}

PoolSizes sizesOf(const PoolSpec& s) {
  const size_t dims = s.kernel.size();
  POPXL_ASSERT(
      dims >= 1 && dims <= 3 && s.input.shape.size() == dims + 2 && s.output.shape.size() == dims + 2 &&
          s.strides.size() == dims && s.padsBegin.size() == dims && s.dilations.size() == dims,
      "input {} output {} kernel {}", toString(s.input.shape), toString(s.output.shape), toString(s.kernel));
  return simd::poolSizes(spatial(std::span(s.input.shape).subspan(2), 1),
                         spatial(std::span(s.output.shape).subspan(2), 1), spatial(s.kernel, 1),
                         spatial(s.strides, 1), spatial(s.padsBegin, 0), spatial(s.dilations, 1));
}

std::string describePool(const PoolSpec& spec, PoolPass pass) {
  return fmt::format("{} {} {} to {}", kNames[static_cast<size_t>(pass)], nameOf(spec.input.dtype),
                     toString(spec.input.shape), toString(spec.output.shape));
}

/// One operand: planes of it are used where they lie, or through a dense copy.
struct PlaneTensor {
  Layout plane;  ///< of one channel of one sample
  int64_t sampleStride, channelStride;
  bool plain;
  bool isRead;

  int64_t elements() const { return plane.numElements(); }
};

PlaneTensor planeTensor(const Layout& l, bool isRead) {
  Layout plane(l.dtype, Shape(l.shape.begin() + 2, l.shape.end()),
               Strides(l.strides.begin() + 2, l.strides.end()));
  const bool plain = dense::isComputeType(l.dtype) && plane.isContiguous();
  return {std::move(plane), l.strides[0], l.strides[1], plain, isRead};
}

/// How many positions of the window lie inside the input, for each output along the last dimension.
template <typename T>
std::vector<T> countsOf(const PoolSizes& s) {
  std::vector<T> counts(static_cast<size_t>(s.out[2]), T{0});
  for (int64_t i = 0; i < s.out[2]; ++i) {
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const int64_t at = i * s.stride[2] - s.pad[2] + k * s.dilation[2];
      if (at >= 0 && at < s.in[2]) counts[static_cast<size_t>(i)] += 1;
    }
  }
  return counts;
}

/// T is what is compared and added; integers are loaded as the unsigned type of its size.
template <typename T>
class PoolKernel final : public Kernel {
 public:
  PoolKernel(const PoolSpec& spec, PoolPass pass);

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return scratch_; }
  std::string describe() const override { return text_; }

 private:
  using Loaded = typename std::conditional_t<std::is_floating_point_v<T>, std::type_identity<T>,
                                             std::make_unsigned<T>>::type;
  static constexpr size_t kMaxOperands = 4;
  struct Lane {
    std::array<Loaded*, kMaxOperands> planes;
    T* rows;
  };

  Lane laneOf(Carver& carver) const;
  void runPlane(std::span<std::byte* const> operands, int64_t sample, int64_t channel,
                const Lane& lane) const;

  PoolSizes sizes_;
  PoolPass pass_;
  std::vector<PlaneTensor> tensors_;
  std::vector<T> counts_;
  int64_t channels_, planes_;
  int64_t perChunk_ = 1, chunks_ = 1, lanes_ = 1, scratch_ = 0;
  std::string text_;
};

template <typename T>
PoolKernel<T>::PoolKernel(const PoolSpec& spec, PoolPass pass)
    : sizes_(sizesOf(spec)),
      pass_(pass),
      counts_(countsOf<T>(sizes_)),
      channels_(spec.input.shape[1]),
      planes_(spec.input.shape[0] * spec.input.shape[1]) {
  const bool isGrad = pass == PoolPass::kMaxGrad || pass == PoolPass::kAverageGrad;
  if (pass != PoolPass::kAverageGrad) tensors_.push_back(planeTensor(spec.input, true));
  if (pass == PoolPass::kMaxGrad) tensors_.push_back(planeTensor(spec.output, true));
  if (isGrad) tensors_.push_back(planeTensor(spec.output, true));
  tensors_.push_back(planeTensor(isGrad ? spec.input : spec.output, false));

  const int64_t window = sizes_.kernel[0] * sizes_.kernel[1] * sizes_.kernel[2];
  int64_t work = window;
  for (int64_t n : sizes_.out) work *= n;
  work = std::max<int64_t>(1, work + spec.input.numElements() / std::max<int64_t>(1, planes_));
  const bool serial = work * planes_ < 2 * kSerialElements;
  perChunk_ = serial ? std::max<int64_t>(planes_, 1) : std::max<int64_t>(1, kSerialElements / work);
  chunks_ = (planes_ + perChunk_ - 1) / perChunk_;
  lanes_ = dense::lanesFor(chunks_);
  Carver carver;
  for (int64_t i = 0; i < lanes_; ++i) laneOf(carver);
  scratch_ = carver.used();
  text_ = describePool(spec, pass);
}

template <typename T>
typename PoolKernel<T>::Lane PoolKernel<T>::laneOf(Carver& carver) const {
  Lane lane{};
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].plain) lane.planes[i] = carver.take<Loaded>(tensors_[i].elements());
  }
  lane.rows = carver.take<T>(simd::poolScratch(pass_, sizes_));
  return lane;
}

template <typename T>
void PoolKernel<T>::runPlane(std::span<std::byte* const> operands, int64_t sample, int64_t channel,
                             const Lane& lane) const {
  std::array<T*, kMaxOperands> at{};
  std::byte* target = nullptr;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const PlaneTensor& t = tensors_[i];
    std::byte* data =
        operands[i] + (sample * t.sampleStride + channel * t.channelStride) * sizeOf(t.plane.dtype);
    at[i] = t.plain ? reinterpret_cast<T*>(data) : reinterpret_cast<T*>(lane.planes[i]);
    if (!t.plain && t.isRead) dense::loadTensor(t.plane, data, lane.planes[i]);
    target = data;
  }
  const size_t last = tensors_.size() - 1;
  simd::PoolPlane<T> plane{nullptr, nullptr, nullptr, at[last], lane.rows, counts_.data()};
  if (pass_ != PoolPass::kAverageGrad) plane.x = at[0];
  if (pass_ == PoolPass::kAverageGrad) plane.dy = at[0];
  if (pass_ == PoolPass::kMaxGrad) {
    plane.y = at[1];
    plane.dy = at[2];
  }
  simd::pool(pass_, sizes_, plane);
  if (!tensors_[last].plain) dense::storeTensor(lane.planes[last], Loaded{1}, tensors_[last].plane, target);
}

template <typename T>
void PoolKernel<T>::run(std::span<std::byte* const> operands) const {
  const size_t count = tensors_.size();
  POPXL_ASSERT(operands.size() >= count + (scratch_ > 0 ? 1 : 0), "{}: {} operands", text_, operands.size());
  if (tensors_.back().elements() == 0) return;
  std::byte* scratch = scratch_ > 0 ? operands[count] : nullptr;
  Carver one;
  laneOf(one);
  dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t index) {
    Carver own(scratch + index * one.used());
    const Lane lane = laneOf(own);
    for (int64_t p = chunk * perChunk_; p < std::min(planes_, (chunk + 1) * perChunk_); ++p) {
      runPlane(operands, p / channels_, p % channels_, lane);
    }
  });
}

KernelPtr make(const PoolSpec& spec, PoolPass pass) {
  const DType t = spec.input.dtype;
  POPXL_ASSERT(spec.output.dtype == t, "{} to {}", nameOf(t), nameOf(spec.output.dtype));
  const bool floats = t == DType::kFloat16 || t == DType::kFloat32 || t == DType::kFloat64;
  if (!floats && !(pass == PoolPass::kMax && isInt(t))) {
    fail(ErrorKind::kType,
         "{}: dtype {} is not supported; expected float16, float32 or float64{}; cast the operand",
         kNames[static_cast<size_t>(pass)], nameOf(t), pass == PoolPass::kMax ? " or an integer" : "");
  }
  if (t == DType::kFloat32 && !spec.input.isContiguous() && spec.input.isChannelsLast() &&
      spec.output.isChannelsLast()) {
    return makePoolChannelsLast(spec, pass, sizesOf(spec), describePool(spec, pass) + ", channels last");
  }
  if (t == DType::kFloat64) return std::make_unique<PoolKernel<double>>(spec, pass);
  if (floats) return std::make_unique<PoolKernel<float>>(spec, pass);
  if (sizeOf(t) == 8 && isSigned(t)) return std::make_unique<PoolKernel<int64_t>>(spec, pass);
  if (sizeOf(t) == 8) return std::make_unique<PoolKernel<uint64_t>>(spec, pass);
  if (isSigned(t)) return std::make_unique<PoolKernel<int32_t>>(spec, pass);
  return std::make_unique<PoolKernel<uint32_t>>(spec, pass);
}

}  // namespace

KernelPtr makePool(const PoolSpec& spec) {
  return make(spec, spec.average ? PoolPass::kAverage : PoolPass::kMax);
}
KernelPtr makeMaxPoolGrad(const PoolSpec& spec) { return make(spec, PoolPass::kMaxGrad); }
KernelPtr makeMaxPoolGrad(const PoolSpec& spec, const Layout& dy, const Layout& dx) {
  if (dy == spec.output && dx == spec.input) return makeMaxPoolGrad(spec);
  return withContiguous({spec.input, spec.output, dy}, {dx}, [&](const std::vector<Layout>& layouts) {
    PoolSpec dense = spec;
    dense.input = layouts[0];
    dense.output = layouts[1];
    return makeMaxPoolGrad(dense);
  });
}
KernelPtr makeAveragePoolGrad(const PoolSpec& spec) { return make(spec, PoolPass::kAverageGrad); }

}  // namespace popxl::kernels
