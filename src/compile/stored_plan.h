#pragma once

#include <span>

#include "algo/offsets.h"

namespace popxl::compile {

/// As algo::planOffsets; the plan is taken from the ResultStore of this thread's compilation where it has it.
algo::OffsetPlan storedPlan(std::span<const algo::Interval> intervals);

}  // namespace popxl::compile
