// The instruction set of the tile code, to compile for the same one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/jit_target.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <cstdlib>
#include <string_view>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/jit.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

int64_t findTarget() { return HWY_TARGET; }

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
HWY_EXPORT(findTarget);

std::optional<jit::Isa> jit::chosenIsa() {
#if defined(__x86_64__)
  const char* value = std::getenv("POPXL_JIT");
  if (value != nullptr && std::string_view(value) == "0") return {};
  const int64_t target = HWY_DYNAMIC_DISPATCH(findTarget)();
  if (target == HWY_AVX3) return Isa::kAvx512;
  if (target == HWY_AVX2) return Isa::kAvx2;
#endif
  return {};
}

}  // namespace popxl::kernels
#endif
