#pragma once

#include <cstdint>

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

// Every element is a pure function of the seed (two uint32 in memory), the stream (one per op that draws from
// a seed) and the element's row-major position; see philox.h. Operands: seed, out.

/// Normal distribution (Box-Muller on 32-bit words; float64: 53-bit), float16, float32 or float64.
KernelPtr makeRandomNormal(const Layout& seed, Layout out, double mean, double std, uint32_t stream = 0);
/// Uniform on [low, high) for float16, float32, float64 and integers of any width; bool and equal bounds give
/// `low`. Floats have 24 (float64: 53) random bits; rounding never reaches `high`.
KernelPtr makeRandomUniform(const Layout& seed, Layout out, double low, double high, uint32_t stream = 0);

/// Operands: seed, index (one integer element), out (two uint32). A new seed: a pure function of the seed and
/// the index.
KernelPtr makeSplitSeed(const Layout& seed, Layout index, const Layout& out);
/// Operands: seed, out. The same for an index known when compiling.
KernelPtr makeSplitSeed(const Layout& seed, uint32_t index, const Layout& out);

}  // namespace popxl::kernels
