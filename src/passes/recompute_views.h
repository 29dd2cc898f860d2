#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// A called graph that gets a view of what another called graph had gets the thing itself and makes the view:
/// between graphs tensors lie dense, so that a view would be copied on the way. Gradient graphs take many.
///
///   %y, %w_T = call @forward(%x, %w)     // @forward: %w_T = transpose %w
///   %dx = call @backward(%dy, %w_T)      // becomes call @backward(%dy, %w_T, %w), which transposes %w
///   itself
///
/// What nothing reads any more, as %w_T, is neither made nor passed.
bool recomputeViews(ir::Ir& ir);

}  // namespace popxl::passes
