#include "kernels/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/half.h"
#include "kernels/philox.h"
#include "kernels/random_simd.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kBufferWords = 1024;
constexpr int64_t kChunkElements = 16 * 1024;

struct Seed {
  uint32_t words[2];
};

Seed readSeed(const std::byte* memory) {
  Seed seed;
  std::memcpy(seed.words, memory, sizeof(seed.words));
  return seed;
}

/// The words of blocks block ... covering n words, rounded up to whole steps, into `out` (room for
/// kBufferWords).
void fillWords(const Seed& seed, uint32_t stream, uint64_t block, int64_t n, uint32_t* out) {
  const int64_t whole = (n + simd::kRandomStep - 1) / simd::kRandomStep * simd::kRandomStep;
  if ((block >> 32) == ((block + static_cast<uint64_t>(whole / 4)) >> 32)) {
    simd::randomOps().words(seed.words[0], seed.words[1], stream, block, whole, out);
    return;
  }
  for (int64_t i = 0; i < whole; i += 4) {
    const auto four =
        philoxElements(seed.words[0], seed.words[1], block + static_cast<uint64_t>(i / 4), stream);
    std::copy(four.begin(), four.end(), out + i);
  }
}

void checkSeed(const Layout& seed) {
  POPXL_ASSERT(seed.dtype == DType::kUInt32 && seed.numElements() == 2, "seed is {} {}", nameOf(seed.dtype),
               toString(seed.shape));
}

/// The largest T below `high`, or `low` itself where there is none: what rounding may reach at most.
template <typename T>
ComputeOf<T> mostBelow(double low, double high) {
  if (!(low < high)) return static_cast<ComputeOf<T>>(low);
  if constexpr (std::is_same_v<T, Half>) {
    uint16_t bits = floatToHalf(static_cast<float>(high));
    while (halfToFloat(bits) >=
           high) {  // at most twice: to below by magnitude, with 0 stepping to the negatives
      const bool negative = (bits & 0x8000u) != 0;
      bits = static_cast<uint16_t>((bits & 0x7fffu) == 0 ? 0x8001u : negative ? bits + 1u : bits - 1u);
    }
    return halfToFloat(bits);
  } else {
    const T rounded = static_cast<T>(high);
    return static_cast<double>(rounded) < high ? rounded
                                               : std::nextafter(rounded, -std::numeric_limits<T>::infinity());
  }
}

/// Draws whole buffers of kBufferWords / kWords elements with Fill and rounds them to T.
template <typename T, typename Fill>
class RandomFloat : public Kernel {
 public:
  using C = ComputeOf<T>;
  static constexpr int64_t kWords = sizeof(C) / 4;  ///< random words an element
  static constexpr int64_t kStep = kBufferWords / kWords;

  RandomFloat(int64_t n, uint32_t stream, Fill fill, std::string name)
      : n_(n), stream_(stream), fill_(fill), name_(std::move(name)) {}

  void run(std::span<std::byte* const> operands) const override {
    const Seed seed = readSeed(operands[0]);
    T* const out = reinterpret_cast<T*>(operands[1]);
    const int64_t chunk = n_ <= kSerialElements ? std::max<int64_t>(n_, 1) : kChunkElements;
    parallelFor((n_ + chunk - 1) / chunk, [&](int64_t i) {
      for (int64_t at = i * chunk; at < std::min(n_, (i + 1) * chunk); at += kStep) {
        draw(seed, at, std::min({kStep, n_ - at, (i + 1) * chunk - at}), out);
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  void draw(const Seed& seed, int64_t first, int64_t count, T* out) const {
    alignas(64) uint32_t words[kBufferWords];
    alignas(64) C values[kStep];
    const int64_t whole = (count + simd::kRandomStep - 1) / simd::kRandomStep * simd::kRandomStep;
    fillWords(seed, stream_, static_cast<uint64_t>(first * kWords / 4), whole * kWords, words);
    fill_(words, values, whole);
    if constexpr (std::is_same_v<T, Half>) {
      storeRow(values, out + first, count);
    } else {
      std::copy(values, values + count, out + first);
    }
  }

  int64_t n_;
  uint32_t stream_;
  Fill fill_;
  std::string name_;
};

template <typename T, typename Fill>
KernelPtr makeRandomFloat(int64_t n, uint32_t stream, Fill fill, std::string name) {
  return std::make_unique<RandomFloat<T, Fill>>(n, stream, fill, std::move(name));
}

/// Integers low + floor(u * range), u from 32 bits for ranges up to 2^32 and from 64 bits for larger ones.
template <typename T>
class RandomInteger : public Kernel {
 public:
  RandomInteger(int64_t n, uint32_t stream, double low, double high, std::string name)
      : n_(n), stream_(stream), name_(std::move(name)) {
    using Limits = std::numeric_limits<T>;
    const double first = std::clamp(std::ceil(low), static_cast<double>(Limits::min()), std::ldexp(1.0, 62));
    const double count = std::clamp(std::ceil(high) - first, 1.0, std::ldexp(1.0, 63));
    low_ = static_cast<T>(first);
    range_ = static_cast<uint64_t>(count);
    const uint64_t room = static_cast<uint64_t>(Limits::max()) - static_cast<uint64_t>(low_);
    range_ = std::min(range_ - 1, room) + 1;
  }
  void run(std::span<std::byte* const> operands) const override {
    const Seed seed = readSeed(operands[0]);
    T* const out = reinterpret_cast<T*>(operands[1]);
    const bool wide = range_ > (uint64_t{1} << 32);
    const int64_t chunk = wide ? kBufferWords / 2 : kBufferWords;
    parallelFor((n_ + chunk - 1) / chunk, [&](int64_t i) {
      alignas(64) uint32_t words[kBufferWords];
      const int64_t first = i * chunk, count = std::min(chunk, n_ - first);
      fillWords(seed, stream_, static_cast<uint64_t>(first * (wide ? 2 : 1) / 4), count * (wide ? 2 : 1),
                words);
      for (int64_t k = 0; k < count; ++k) {
        const uint64_t bits =
            wide ? words[2 * k] | uint64_t{words[2 * k + 1]} << 32 : uint64_t{words[k]} << 32;
        const auto offset = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range_) >> 64);
        out[first + k] = static_cast<T>(static_cast<uint64_t>(low_) + offset);
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  int64_t n_;
  uint32_t stream_;
  T low_;
  uint64_t range_;
  std::string name_;
};

class SplitSeed : public Kernel {
 public:
  SplitSeed(DType indexType, bool fromMemory, uint32_t index)
      : indexType_(indexType), fromMemory_(fromMemory), index_(index) {}
  void run(std::span<std::byte* const> operands) const override {
    const Seed seed = readSeed(operands[0]);
    int64_t index = index_;
    if (fromMemory_) readIndices(indexType_, operands[1], 0, 1, &index);
    const auto bits = static_cast<uint64_t>(index);
    const auto words = philoxBlock({static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0,
                                    static_cast<uint32_t>(PhiloxUse::kSeeds)},
                                   seed.words[0], seed.words[1]);
    std::memcpy(operands[fromMemory_ ? 2 : 1], words.data(), sizeof(seed.words));
  }
  std::string describe() const override { return "split seed"; }

 private:
  DType indexType_;
  bool fromMemory_;
  uint32_t index_;
};

KernelPtr makeUniform(Layout out, double low, double high, uint32_t stream) {
  POPXL_ASSERT(out.dtype != DType::kBool, "uniform bool");
  const int64_t n = out.numElements();
  std::string name = fmt::format("uniform {} {}", nameOf(out.dtype), toString(out.shape));
  return dispatchNumber(out.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
    if constexpr (std::is_integral_v<T>) {
      return std::make_unique<RandomInteger<T>>(n, stream, low, high, std::move(name));
    } else {
      using C = ComputeOf<T>;
      const C from = static_cast<C>(low), range = static_cast<C>(std::max(high - low, 0.0));
      const C most = mostBelow<T>(low, high);
      return makeRandomFloat<T>(
          n, stream,
          [=](const uint32_t* words, C* values, int64_t count) {
            if constexpr (sizeof(C) == 4) {
              simd::randomOps().uniformFloat(words, from, range, most, values, count);
            } else {
              simd::randomOps().uniformDouble(words, from, range, most, values, count);
            }
          },
          std::move(name));
    }
  });
}

KernelPtr makeNormal(const Layout& out, double mean, double std, uint32_t stream) {
  const int64_t n = out.numElements();
  std::string name = fmt::format("normal {} {}", nameOf(out.dtype), toString(out.shape));
  return dispatchFloat(out.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
    using C = ComputeOf<T>;
    const C center = static_cast<C>(mean), width = static_cast<C>(std);
    return makeRandomFloat<T>(
        n, stream,
        [=](const uint32_t* words, C* values, int64_t count) {
          if constexpr (sizeof(C) == 4) {
            simd::randomOps().normalFloat(words, center, width, values, count);
          } else {
            simd::randomOps().normalDouble(words, center, width, values, count);
          }
        },
        std::move(name));
  });
}

}  // namespace

void philoxFill(uint32_t seed0, uint32_t seed1, uint32_t stream, uint64_t first, int64_t n, uint32_t* out) {
  const Seed seed{{seed0, seed1}};
  alignas(64) uint32_t words[kBufferWords];
  while (n > 0) {
    const auto skip = static_cast<int64_t>(first % 4);
    const int64_t count = std::min(n, kBufferWords - skip);
    fillWords(seed, stream, first / 4, skip + count, words);
    std::copy(words + skip, words + skip + count, out);
    out += count;
    first += static_cast<uint64_t>(count);
    n -= count;
  }
}

KernelPtr makeRandomNormal(const Layout& seed, Layout out, double mean, double std, uint32_t stream) {
  checkSeed(seed);
  return withContiguous({seed}, {std::move(out)}, [=](const std::vector<Layout>& layouts) {
    return makeNormal(layouts[1], mean, std, stream);
  });
}

KernelPtr makeRandomUniform(const Layout& seed, Layout out, double low, double high, uint32_t stream) {
  checkSeed(seed);
  return withContiguous({seed}, {std::move(out)}, [=](const std::vector<Layout>& layouts) {
    return makeUniform(layouts[1], low, high, stream);
  });
}

KernelPtr makeSplitSeed(const Layout& seed, Layout index, const Layout& out) {
  checkSeed(seed);
  checkSeed(out);
  return withContiguous({seed, std::move(index)}, {out}, [](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<SplitSeed>(layouts[1].dtype, true, 0);
  });
}

KernelPtr makeSplitSeed(const Layout& seed, uint32_t index, const Layout& out) {
  checkSeed(seed);
  checkSeed(out);
  return withContiguous({seed}, {out}, [index](const std::vector<Layout>&) -> KernelPtr {
    return std::make_unique<SplitSeed>(DType::kUInt32, false, index);
  });
}

}  // namespace popxl::kernels
