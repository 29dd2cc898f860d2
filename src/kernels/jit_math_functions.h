#pragma once

#include <cstdint>

#include "kernels/jit_code.h"

namespace popxl::kernels::jit {

// The float32 functions of highway_math-inl.h on one vector.
int32_t expF32(Builder& b, int32_t x);
int32_t logF32(Builder& b, int32_t x);
int32_t tanhF32(Builder& b, int32_t x);
int32_t erfF32(Builder& b, int32_t x);

}  // namespace popxl::kernels::jit
