#pragma once

#include "passes/autodiff.h"
#include "popxl/transforms.h"

namespace popxl::transforms {

/// What the core knows a gradient graph by.
passes::GradInfo fromInfo(const GradGraphInfo& info);

}  // namespace popxl::transforms
