#include "kernels/jit_math_functions.h"

#include "kernels/highway_math-inl.h"
#include "kernels/jit_math.h"

namespace popxl::kernels::jit {

int32_t expF32(Builder& b, int32_t x) { return HWY_NAMESPACE::expF32(Tag<float>{&b}, Vec<float>{&b, x}).id; }
int32_t logF32(Builder& b, int32_t x) { return HWY_NAMESPACE::logF32(Tag<float>{&b}, Vec<float>{&b, x}).id; }
int32_t tanhF32(Builder& b, int32_t x) {
  return HWY_NAMESPACE::tanhF32(Tag<float>{&b}, Vec<float>{&b, x}).id;
}
int32_t erfF32(Builder& b, int32_t x) { return HWY_NAMESPACE::erfF32(Tag<float>{&b}, Vec<float>{&b, x}).id; }

}  // namespace popxl::kernels::jit
