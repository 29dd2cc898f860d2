#pragma once

#include <array>
#include <cstdint>

namespace popxl::kernels {

/// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four random words as
/// a pure function of a counter and a key.
constexpr std::array<uint32_t, 4> philoxBlock(std::array<uint32_t, 4> counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Last counter word: keeps what different uses draw from one seed apart.
enum class PhiloxUse : uint32_t { kElements = 0, kSeeds = 1 };

/// The four words for elements 4 * block ... 4 * block + 3 of `stream` under the seed.
constexpr std::array<uint32_t, 4> philoxElements(uint32_t seed0, uint32_t seed1, uint64_t block,
                                                 uint32_t stream) {
  return philoxBlock({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream,
                      static_cast<uint32_t>(PhiloxUse::kElements)},
                     seed0, seed1);
}

/// The random bits of one element (Prim::kPhilox): word `position` mod 4 of block `position` / 4.
constexpr uint32_t philox(uint32_t seed0, uint32_t seed1, uint64_t position, uint32_t stream) {
  return philoxElements(seed0, seed1, position / 4, stream)[position % 4];
}

/// out[i] = philox(seed0, seed1, first + i, stream) for i in [0, n), with SIMD: several times faster than one
/// by one.
void philoxFill(uint32_t seed0, uint32_t seed1, uint32_t stream, uint64_t first, int64_t n, uint32_t* out);

}  // namespace popxl::kernels
