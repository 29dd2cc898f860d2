#pragma once

#include <optional>

#include "kernels/expr.h"

namespace popxl::kernels {

inline constexpr int64_t kBooleansPerWord = 4;

/// What `expr` does to booleans, done to uint32 words of four of them; nothing where some value is no truth
/// value or no logic makes it.
std::optional<Expr> onBooleanWords(const Expr& expr);

}  // namespace popxl::kernels
