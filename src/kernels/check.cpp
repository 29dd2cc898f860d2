#include "kernels/check.h"

#include <cstring>

#include "base/error.h"

namespace popxl::kernels {
namespace {

class RangeCheck final : public Kernel {
 public:
  RangeCheck(int32_t low, int32_t end, std::string what) : low_(low), end_(end), what_(std::move(what)) {}
  void run(std::span<std::byte* const> operands) const override {
    int32_t value = 0;
    std::memcpy(&value, operands[0], sizeof(value));
    if (value >= low_ && value < end_) return;
    fail(ErrorKind::kNumeric, "{} is {}; it must be in [{}, {})", what_, value, low_, end_);
  }
  std::string describe() const override { return "check of a range"; }

 private:
  int32_t low_, end_;
  std::string what_;
};

}  // namespace

KernelPtr makeRangeCheck(int32_t low, int32_t end, std::string what) {
  return std::make_unique<RangeCheck>(low, end, std::move(what));
}

}  // namespace popxl::kernels
