#pragma once

#include <cstdint>

namespace popxl::kernels::simd {

/// Elements per call below are a multiple of this; buffers are 64-byte aligned.
inline constexpr int64_t kRandomStep = 64;

struct RandomOps {
  /// out[4 * i + w] = word w of block `block` + i; n words, a multiple of kRandomStep; the blocks do not pass
  /// 2^32.
  void (*words)(uint32_t seed0, uint32_t seed1, uint32_t stream, uint64_t block, int64_t n, uint32_t* out);
  /// min(low + u * range, most), u in [0, 1) of 24 bits a word, or 53 bits for two words.
  void (*uniformFloat)(const uint32_t* words, float low, float range, float most, float* out, int64_t n);
  void (*uniformDouble)(const uint32_t* words, double low, double range, double most, double* out, int64_t n);
  /// Box-Muller over neighbouring elements.
  void (*normalFloat)(const uint32_t* words, float mean, float std, float* out, int64_t n);
  void (*normalDouble)(const uint32_t* words, double mean, double std, double* out, int64_t n);
};
const RandomOps& randomOps();

}  // namespace popxl::kernels::simd
