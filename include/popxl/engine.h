#pragma once

#include <cstdint>

namespace popxl {

/// What carries out the programs of a Session.
enum class EngineKind : uint8_t {
  kCompiled,   ///< fused SIMD kernels over planned memory
  kReference,  ///< each op by its definition in float64, rounded to its dtype: slow, to compare with
};

}  // namespace popxl
