#include "kernels/roi_align.h"

#include <algorithm>
#include <cmath>

#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// A row or a column of the image, and its share in a bin.
template <typename C>
struct Line {
  int64_t at;
  C weight;
};

/// What both directions share. A bilinear sample is a product of one weight by row and one by column, so a
/// bin is the sum over `2 samples` rows and as many columns.
template <typename T>
class RoiBins {
 public:
  using C = ComputeOf<T>;

  explicit RoiBins(const RoiAlignSpec& s)
      : regions(s.rois.shape[0]),
        images(s.t.shape[0]),
        channels(s.t.shape[1]),
        height(s.t.shape[2]),
        width(s.t.shape[3]),
        rows(s.out.shape[2]),
        columns(s.out.shape[3]),
        lines(2 * s.samples),
        samples_(s.samples),
        scale_(static_cast<C>(s.scale)),
        indexType_(s.images.dtype),
        chunks_(regions, (rows + columns) * lines * 8) {}

  int64_t perRegion() const { return (rows + columns) * lines; }
  int64_t scratchBytes() const {
    return kernels::lines((regions * perRegion() + 1) * static_cast<int64_t>(sizeof(Line<C>)));
  }

  /// The lines of all bins: for each region those of its rows, then those of its columns.
  void find(const T* rois, Line<C>* out) const {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      for (int64_t r = chunks_.begin(chunk); r < chunks_.end(chunk); ++r) {
        const T* const roi = rois + 4 * r;
        Line<C>* const own = out + r * perRegion();
        side(widen(roi[1]), widen(roi[3]), rows, height, own);
        side(widen(roi[0]), widen(roi[2]), columns, width, own + rows * lines);
      }
    });
  }
  int64_t image(const std::byte* indices, int64_t region) const {
    int64_t index = 0;
    readIndices(indexType_, indices, region, 1, &index);
    return index >= 0 && index < images ? index : -1;
  }

  int64_t regions, images, channels, height, width, rows, columns, lines;

 private:
  void side(C first, C last, int64_t bins, int64_t size, Line<C>* out) const {
    const C begin = first * scale_, length = std::max(last * scale_ - begin, C{1});
    const C bin = length / static_cast<C>(bins);
    for (int64_t b = 0; b < bins; ++b) {
      for (int64_t i = 0; i < samples_; ++i, out += 2) {
        const C step = (static_cast<C>(i) + C{0.5}) * bin / static_cast<C>(samples_);
        const C at = begin + static_cast<C>(b) * bin + step;
        out[0] = out[1] = {0, 0};
        if (!(size > 0 && at >= -1 && at <= static_cast<C>(size))) continue;  // outside, or NaN
        const C inside = std::clamp(at, C{0}, static_cast<C>(size - 1));
        const auto low = static_cast<int64_t>(inside);
        const C share = inside - static_cast<C>(low), whole = C{1} / static_cast<C>(samples_);
        out[0] = {low, (1 - share) * whole};
        out[1] = {std::min(low + 1, size - 1), share * whole};
      }
    }
  }

  int64_t samples_;
  C scale_;
  DType indexType_;
  RowChunks chunks_;
};

template <typename T>
class RoiAlign final : public Kernel {
 public:
  using C = ComputeOf<T>;
  explicit RoiAlign(const RoiAlignSpec& s)
      : bins_(s),
        chunks_(bins_.regions * bins_.channels, bins_.rows * bins_.columns * bins_.lines * bins_.lines),
        name_(fmt::format("roi align {} {} of {}", nameOf(s.t.dtype), toString(s.out.shape),
                          toString(s.t.shape))) {}

  void run(std::span<std::byte* const> operands) const override {
    auto* const lines = reinterpret_cast<Line<C>*>(operands[4]);
    bins_.find(reinterpret_cast<const T*>(operands[1]), lines);
    const int64_t area = bins_.rows * bins_.columns;
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      for (int64_t i = chunks_.begin(chunk); i < chunks_.end(chunk); ++i) {
        const int64_t region = i / bins_.channels, image = bins_.image(operands[2], region);
        T* const out = reinterpret_cast<T*>(operands[3]) + i * area;
        const int64_t plane = image * bins_.channels + i % bins_.channels;
        pool(reinterpret_cast<const T*>(operands[0]) +
                 std::max<int64_t>(plane, 0) * bins_.height * bins_.width,
             lines + region * bins_.perRegion(), image >= 0, out);
      }
    });
  }
  int64_t scratchBytes() const override { return bins_.scratchBytes(); }
  std::string describe() const override { return name_; }

 private:
  void pool(const T* plane, const Line<C>* lines, bool exists, T* out) const {
    for (int64_t row = 0; row < bins_.rows; ++row) {
      for (int64_t column = 0; column < bins_.columns; ++column) {
        const C sum =
            exists ? binOf(plane, lines + row * bins_.lines, lines + (bins_.rows + column) * bins_.lines)
                   : C{0};
        writeValue(sum, *out++);
      }
    }
  }
  C binOf(const T* plane, const Line<C>* rows, const Line<C>* columns) const {
    C sum = 0;
    for (int64_t y = 0; y < bins_.lines; ++y) {
      if (rows[y].weight == 0) continue;
      const T* const line = plane + rows[y].at * bins_.width;
      C along = 0;
      for (int64_t x = 0; x < bins_.lines; ++x) {
        if (columns[x].weight != 0) along += columns[x].weight * widen(line[columns[x].at]);
      }
      sum += rows[y].weight * along;
    }
    return sum;
  }
  static void writeValue(C value, T& to) {
    if constexpr (std::is_same_v<T, Half>) {
      to.bits = floatToHalf(value);
    } else {
      to = value;
    }
  }

  RoiBins<T> bins_;
  RowChunks chunks_;
  std::string name_;
};

/// Adds up in C; for float16 in scratch memory behind the lines.
template <typename T>
class RoiAlignGrad final : public Kernel {
 public:
  using C = ComputeOf<T>;
  explicit RoiAlignGrad(const RoiAlignSpec& s)
      : bins_(s),
        planes_(bins_.images * bins_.channels),
        area_(bins_.height * bins_.width),
        chunks_(planes_, bins_.regions * bins_.rows * bins_.columns * bins_.lines * bins_.lines + area_),
        name_(fmt::format("roi align gradient {} {} of {}", nameOf(s.t.dtype), toString(s.out.shape),
                          toString(s.t.shape))) {}

  void run(std::span<std::byte* const> operands) const override {
    auto* const lines = reinterpret_cast<Line<C>*>(operands[4]);
    bins_.find(reinterpret_cast<const T*>(operands[1]), lines);
    T* const out = reinterpret_cast<T*>(operands[3]);
    auto* const sums = reinterpret_cast<C*>(operands[4] + bins_.scratchBytes());
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      for (int64_t plane = chunks_.begin(chunk); plane < chunks_.end(chunk); ++plane) {
        C* const sum = rowTarget(out + plane * area_, sums + plane * area_);
        std::fill(sum, sum + area_, C{0});
        addRegions(reinterpret_cast<const T*>(operands[0]), operands[2], lines, plane, sum);
        storeRow(sum, out + plane * area_, area_);
      }
    });
  }
  int64_t scratchBytes() const override {
    const bool converts = std::is_same_v<T, Half>;
    return bins_.scratchBytes() +
           (converts ? kernels::lines((planes_ * area_ + 1) * static_cast<int64_t>(sizeof(C))) : 0);
  }
  std::string describe() const override { return name_; }

 private:
  void addRegions(const T* dy, const std::byte* images, const Line<C>* lines, int64_t plane, C* sum) const {
    const int64_t image = plane / bins_.channels, channel = plane % bins_.channels;
    const int64_t bins = bins_.rows * bins_.columns;
    for (int64_t region = 0; region < bins_.regions; ++region) {
      if (bins_.image(images, region) != image) continue;
      const T* from = dy + (region * bins_.channels + channel) * bins;
      const Line<C>* const own = lines + region * bins_.perRegion();
      for (int64_t row = 0; row < bins_.rows; ++row) {
        for (int64_t column = 0; column < bins_.columns; ++column) {
          addBin(widen(*from++), own + row * bins_.lines, own + (bins_.rows + column) * bins_.lines, sum);
        }
      }
    }
  }
  void addBin(C dy, const Line<C>* rows, const Line<C>* columns, C* sum) const {
    for (int64_t y = 0; y < bins_.lines; ++y) {
      if (rows[y].weight == 0) continue;
      C* const line = sum + rows[y].at * bins_.width;
      for (int64_t x = 0; x < bins_.lines; ++x) {
        if (columns[x].weight != 0) line[columns[x].at] += rows[y].weight * columns[x].weight * dy;
      }
    }
  }

  RoiBins<T> bins_;
  int64_t planes_, area_;
  RowChunks chunks_;
  std::string name_;
};

template <template <typename> class K>
KernelPtr make(const RoiAlignSpec& spec, const Layout& first, const Layout& result) {
  POPXL_ASSERT(spec.t.rank() == 4 && spec.out.rank() == 4 && spec.samples >= 1, "t {} out {} samples {}",
               toString(spec.t.shape), toString(spec.out.shape), spec.samples);
  return withContiguous({first, spec.rois, spec.images}, {result}, [&](const std::vector<Layout>&) {
    return dispatchFloat(spec.t.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<K<T>>(spec);
    });
  });
}

}  // namespace

KernelPtr makeRoiAlign(const RoiAlignSpec& spec) { return make<RoiAlign>(spec, spec.t, spec.out); }
KernelPtr makeRoiAlignGrad(const RoiAlignSpec& spec) { return make<RoiAlignGrad>(spec, spec.out, spec.t); }

}  // namespace popxl::kernels
