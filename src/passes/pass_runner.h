#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace popxl::passes {

/// All passes, by name.
std::span<const Pass> allPasses();
/// Error(kValue) naming all passes when there is none of this name.
const Pass& findPass(std::string_view name);

/// Runs a pass unless POPXL_DISABLE_PASSES (names, separated by commas) lists it; says whether it changed
/// something. Its time is logged at level debug. A changed Ir is verified, and printed to stderr when
/// POPXL_PRINT_AFTER names the pass or is "all".
bool runPass(const Pass& pass, ir::Ir& ir);
bool runPass(std::string_view name, ir::Ir& ir);
/// Runs passes one after another. Verifies once at the end, which is what a program that is being compiled
/// can afford.
void runPasses(std::span<const std::string_view> names, ir::Ir& ir);

}  // namespace popxl::passes
