#include "kernels/norm.h"

#include <cmath>
#include <cstring>

#include "kernels/norm_channels_last.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// Sizes that the forward and the gradient share. A row is one group of one sample: channels_ channels of
/// space_ elements.
template <typename T>
class GroupNormBase : public Kernel {
 public:
  using C = ComputeOf<T>;

  GroupNormBase(const GroupNormSpec& spec, const char* what, int64_t mostChunks)
      : spec_(spec),
        allChannels_(spec.x.shape[1]),
        channels_(allChannels_ / spec.groups),
        space_(allChannels_ == 0
                   ? 0
                   : spec.x.numElements() / std::max<int64_t>(spec.x.shape[0] * allChannels_, 1)),
        length_(channels_ * space_),
        chunks_(spec.x.shape[0] * spec.groups, 4 * length_, mostChunks),
        name_(fmt::format("{} {} {} groups {}", what, nameOf(spec.x.dtype), toString(spec.x.shape),
                          spec.groups)) {}
  std::string describe() const override { return name_; }
  double flops() const override { return 8.0 * static_cast<double>(chunks_.rows * length_); }

 protected:
  static constexpr bool kConverts = std::is_same_v<T, Half>;
  static constexpr int64_t kSize = sizeof(C);

  int64_t channelOf(int64_t row) const { return row % spec_.groups * channels_; }

  /// The parameter as C: where it is, or converted into scratch.
  const C* parameter(const std::byte* operand, C* scratch) const {
    if (sizeOf(spec_.weight.dtype) == kSize) return reinterpret_cast<const C*>(operand);
    convertToCompute(spec_.weight.dtype, operand, allChannels_, scratch);
    return scratch;
  }
  int64_t parameterBytes() const { return lines(allChannels_ * kSize); }
  int64_t rowBytes() const { return kConverts ? lines(length_ * kSize) : 0; }

  GroupNormSpec spec_;
  int64_t allChannels_, channels_, space_, length_;
  RowChunks chunks_;
  std::string name_;
};

template <typename T>
class GroupNorm : public GroupNormBase<T> {
 public:
  using typename GroupNormBase<T>::C;

  explicit GroupNorm(const GroupNormSpec& spec)
      : GroupNormBase<T>(spec, "group norm", 64),
        streams_(streamsRows<T>(this->chunks_.rows, this->length_)) {}

  void run(std::span<std::byte* const> operands) const override {
    std::byte* const scratch = operands[6];
    const C* const weight = this->parameter(operands[1], reinterpret_cast<C*>(scratch));
    const C* const bias =
        this->parameter(operands[2], reinterpret_cast<C*>(scratch + this->parameterBytes()));
    parallelFor(this->chunks_.chunks, [&](int64_t chunk) {
      C* const buffer = reinterpret_cast<C*>(scratch + 2 * this->parameterBytes() + chunk * bufferBytes());
      for (int64_t row = this->chunks_.begin(chunk); row < this->chunks_.end(chunk); ++row) {
        normaliseRow(operands, row, weight, bias, buffer);
      }
      if (streams_) simd::flushStream();
    });
  }
  int64_t scratchBytes() const override {
    return std::max<int64_t>(2 * this->parameterBytes() + this->chunks_.chunks * bufferBytes(), 64);
  }

 private:
  int64_t bufferBytes() const { return streams_ ? lines(this->length_ * this->kSize) : this->rowBytes(); }

  void normaliseRow(std::span<std::byte* const> operands, int64_t row, const C* weight, const C* bias,
                    C* buffer) const {
    const auto& ops = simd::rowOps<C>();
    const int64_t n = this->length_, first = this->channelOf(row);
    T* const y = reinterpret_cast<T*>(operands[3]) + row * n;
    const C* const x = loadRow(reinterpret_cast<const T*>(operands[0]) + row * n, buffer, n);
    const C mean = ops.sum(x, n) / static_cast<C>(n);
    const C variance = ops.sumSquares(x, mean, n) / static_cast<C>(n);
    const C inv = C{1} / std::sqrt(variance + static_cast<C>(this->spec_.eps));
    writeNumber(this->spec_.mean.dtype, operands[4], row, mean);
    writeNumber(this->spec_.mean.dtype, operands[5], row, inv);
    const bool streams = streams_ && operands[0] != operands[3];
    C* const out = streams ? buffer : rowTarget(y, buffer);
    if (this->space_ == 1) {
      ops.normalise(x, mean, inv, weight + first, bias + first, out, n);
    } else {
      for (int64_t c = 0; c < this->channels_; ++c) {
        const int64_t at = c * this->space_;
        ops.affine(x + at, mean, inv * weight[first + c], bias[first + c], out + at, this->space_);
      }
    }
    streams ? streamRow(out, y, n) : storeRow(out, y, n);
  }

  bool streams_;
};

template <typename T>
class GroupNormGrad : public GroupNormBase<T> {
 public:
  using typename GroupNormBase<T>::C;

  /// Few chunks: the parameters' gradients of each are added up in the end.
  explicit GroupNormGrad(const GroupNormSpec& spec) : GroupNormBase<T>(spec, "group norm gradient", 16) {}

  void run(std::span<std::byte* const> operands) const override {
    std::byte* const scratch = operands[8];
    const C* const weight = this->parameter(operands[1], reinterpret_cast<C*>(scratch));
    std::byte* const partial = scratch + this->parameterBytes();
    parallelFor(this->chunks_.chunks, [&](int64_t chunk) {
      std::byte* const mine = partial + chunk * chunkBytes();
      std::memset(mine, 0, static_cast<size_t>(2 * this->parameterBytes()));
      for (int64_t row = this->chunks_.begin(chunk); row < this->chunks_.end(chunk); ++row) {
        rowGrad(operands, row, weight, mine);
      }
    });
    // Chunk sums in chunk order, onto those of the first.
    if (this->chunks_.chunks == 0) std::memset(partial, 0, static_cast<size_t>(2 * this->parameterBytes()));
    for (int64_t chunk = 1; chunk < this->chunks_.chunks; ++chunk) {
      const std::byte* const other = partial + chunk * chunkBytes();
      simd::rowOps<C>().axpy(C{1}, reinterpret_cast<const C*>(other), reinterpret_cast<C*>(partial),
                             2 * this->parameterBytes() / this->kSize);
    }
    for (size_t i = 0; i < 2; ++i) {
      convertFromCompute(
          this->spec_.weight.dtype,
          reinterpret_cast<const C*>(partial + static_cast<int64_t>(i) * this->parameterBytes()),
          this->allChannels_, operands[6 + i]);
    }
  }
  int64_t scratchBytes() const override {
    return std::max<int64_t>(
        this->parameterBytes() + std::max<int64_t>(this->chunks_.chunks, 1) * chunkBytes(), 64);
  }

 private:
  /// A chunk's dweight and dbias, then x and dy as C when they are not.
  int64_t chunkBytes() const { return 2 * this->parameterBytes() + 2 * this->rowBytes(); }

  void rowGrad(std::span<std::byte* const> operands, int64_t row, const C* weight, std::byte* mine) const {
    const auto& ops = simd::rowOps<C>();
    const int64_t n = this->length_, first = this->channelOf(row), space = this->space_;
    C* const dweight = reinterpret_cast<C*>(mine) + first;
    C* const dbias = reinterpret_cast<C*>(mine + this->parameterBytes()) + first;
    std::byte* const buffers = mine + 2 * this->parameterBytes();
    C* const dyBuffer = reinterpret_cast<C*>(buffers + this->rowBytes());
    const C* const x =
        loadRow(reinterpret_cast<const T*>(operands[0]) + row * n, reinterpret_cast<C*>(buffers), n);
    const C* const dy = loadRow(reinterpret_cast<const T*>(operands[4]) + row * n, dyBuffer, n);
    const C mean = static_cast<C>(readNumber(this->spec_.mean.dtype, operands[2], row));
    const C inv = static_cast<C>(readNumber(this->spec_.mean.dtype, operands[3], row));
    T* const dx = reinterpret_cast<T*>(operands[5]) + row * n;
    C* const out = rowTarget(dx, dyBuffer);
    const C* const w = weight + first;
    C sums[2] = {0, 0};
    if (space == 1) {
      ops.normGradSums(x, dy, w, mean, inv, dweight, dbias, sums, n);
      ops.normGradInput(x, dy, w, mean, inv, sums[0] / static_cast<C>(n), sums[1] / static_cast<C>(n), out,
                        n);
    } else {
      for (int64_t c = 0; c < this->channels_; ++c) {
        C channel[2];
        ops.normGradChannel(x + c * space, dy + c * space, mean, inv, channel, space);
        dbias[c] += channel[0];
        dweight[c] += channel[1];
        sums[0] += w[c] * channel[0];
        sums[1] += w[c] * channel[1];
      }
      const C c1 = sums[0] / static_cast<C>(n), c2 = sums[1] / static_cast<C>(n);
      for (int64_t c = 0; c < this->channels_; ++c) {
        const int64_t at = c * space;
        ops.normGradChannelInput(x + at, dy + at, w[c], mean, inv, c1, c2, out + at, space);
      }
    }
    storeRow(out, dx, n);
  }
};

template <typename T>
class BatchNormInference : public Kernel {
 public:
  using C = ComputeOf<T>;

  BatchNormInference(const Layout& x, DType parameters, double eps)
      : parameters_(parameters),
        channels_(x.shape[1]),
        space_(x.numElements() / std::max<int64_t>(x.shape[0] * channels_, 1)),
        eps_(eps),
        chunks_(space_ == 1 ? x.shape[0] : x.shape[0] * channels_, 2 * length()),
        name_(fmt::format("batch norm {} {}", nameOf(x.dtype), toString(x.shape))) {}

  void run(std::span<std::byte* const> operands) const override {
    std::byte* const scratch = operands[6];
    C* const factor = reinterpret_cast<C*>(scratch);
    C* const bias = reinterpret_cast<C*>(scratch + parameterBytes());
    C* const mean = reinterpret_cast<C*>(scratch + 2 * parameterBytes());
    // The variance passes through the place of `mean` on its way into the factor.
    convertToCompute(parameters_, operands[1], channels_, factor);
    convertToCompute(parameters_, operands[4], channels_, mean);
    for (int64_t c = 0; c < channels_; ++c) factor[c] /= std::sqrt(mean[c] + static_cast<C>(eps_));
    convertToCompute(parameters_, operands[2], channels_, bias);
    convertToCompute(parameters_, operands[3], channels_, mean);
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      C* const buffer = reinterpret_cast<C*>(scratch + 3 * parameterBytes() + chunk * rowBytes());
      for (int64_t row = chunks_.begin(chunk); row < chunks_.end(chunk); ++row) {
        const int64_t n = length();
        T* const y = reinterpret_cast<T*>(operands[5]) + row * n;
        const C* const x = loadRow(reinterpret_cast<const T*>(operands[0]) + row * n, buffer, n);
        C* const out = rowTarget(y, buffer);
        if (space_ == 1) {
          simd::rowOps<C>().affineVector(x, mean, factor, bias, out, n);
        } else {
          const int64_t c = row % channels_;
          simd::rowOps<C>().affine(x, mean[c], factor[c], bias[c], out, n);
        }
        storeRow(out, y, n);
      }
    });
  }
  int64_t scratchBytes() const override {
    return std::max<int64_t>(3 * parameterBytes() + chunks_.chunks * rowBytes(), 64);
  }
  std::string describe() const override { return name_; }

 private:
  int64_t length() const { return space_ == 1 ? channels_ : space_; }
  int64_t parameterBytes() const { return lines(channels_ * static_cast<int64_t>(sizeof(C))); }
  int64_t rowBytes() const {
    return std::is_same_v<T, Half> ? lines(length() * static_cast<int64_t>(sizeof(C))) : 0;
  }

  DType parameters_;
  int64_t channels_, space_;
  double eps_;
  RowChunks chunks_;
  std::string name_;
};

void check(const GroupNormSpec& spec, const Layout& other) {
  POPXL_ASSERT(spec.x.rank() >= 2, "x {}", toString(spec.x.shape));
  POPXL_ASSERT(other.shape == spec.x.shape && other.dtype == spec.x.dtype, "x {} {}, other {} {}",
               nameOf(spec.x.dtype), toString(spec.x.shape), nameOf(other.dtype), toString(other.shape));
  POPXL_ASSERT(spec.groups > 0 && spec.x.shape[1] % spec.groups == 0, "{} groups of {}", spec.groups,
               toString(spec.x.shape));
  POPXL_ASSERT(spec.weight.numElements() == spec.x.shape[1], "weight {} of x {}", toString(spec.weight.shape),
               toString(spec.x.shape));
  POPXL_ASSERT(spec.mean.numElements() == spec.x.shape[0] * spec.groups, "mean {} of x {} in {} groups",
               toString(spec.mean.shape), toString(spec.x.shape), spec.groups);
}

}  // namespace

KernelPtr makeGroupNorm(GroupNormSpec spec, const Layout& y) {
  check(spec, y);
  if (isGroupNormChannelsLast(spec, y)) return makeGroupNormChannelsLast(spec);
  return withContiguous(
      {spec.x, spec.weight, spec.weight}, {y, spec.mean, spec.mean}, [&](const std::vector<Layout>& layouts) {
        const GroupNormSpec dense{layouts[0], layouts[1], layouts[4], spec.groups, spec.eps};
        return dispatchFloat(dense.x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
          return std::make_unique<GroupNorm<T>>(dense);
        });
      });
}

KernelPtr makeGroupNormGrad(GroupNormSpec spec, const Layout& dy, const Layout& dx) {
  check(spec, dy);
  check(spec, dx);
  if (isGroupNormChannelsLast(spec, dx) && dy.isChannelsLast()) return makeGroupNormGradChannelsLast(spec);
  return withContiguous(
      {spec.x, spec.weight, spec.mean, spec.mean, dy}, {dx, spec.weight, spec.weight},
      [&](const std::vector<Layout>& layouts) {
        const GroupNormSpec dense{layouts[0], layouts[1], layouts[2], spec.groups, spec.eps};
        return dispatchFloat(dense.x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
          return std::make_unique<GroupNormGrad<T>>(dense);
        });
      });
}

KernelPtr makeBatchNormInference(Layout x, Layout parameter, Layout y, double eps) {
  POPXL_ASSERT(x.rank() >= 2 && y.shape == x.shape && y.dtype == x.dtype, "x {} y {}", toString(x.shape),
               toString(y.shape));
  POPXL_ASSERT(parameter.numElements() == x.shape[1], "parameter {} of x {}", toString(parameter.shape),
               toString(x.shape));
  return withContiguous({x, parameter, parameter, parameter, parameter}, {y},
                        [&](const std::vector<Layout>& layouts) {
                          return dispatchFloat(x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
                            return std::make_unique<BatchNormInference<T>>(layouts[0], layouts[1].dtype, eps);
                          });
                        });
}

}  // namespace popxl::kernels
