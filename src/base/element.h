#pragma once

#include <cstddef>
#include <cstdint>

#include "popxl/dtype.h"

namespace popxl {

/// One element of a tensor: a float lives in `number`, exactly; an integer or bool in `integer` (signed ones
/// sign-extended, unsigned ones zero-extended).
struct Element {
  double number = 0;
  uint64_t integer = 0;
};

/// Error of ours for a dtype without elements that can be computed with.
Element loadElement(DType dtype, const std::byte* at);
/// Rounds `number`, or keeps the low bits of `integer`; float8 saturates, any integer but 0 is true.
void storeElement(DType dtype, const Element& element, std::byte* at);

}  // namespace popxl
