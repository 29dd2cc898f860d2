#pragma once

#include "kernels/expr.h"

namespace popxl::kernels {

/// `dy` times the derivative of y with respect to x, as further nodes of their expression; y, x and dy are of
/// float types. Rounding and conversions between floats pass a derivative on; comparisons, rounding to
/// integers and random bits have none. Of two equal operands of kMin and kMax the first counts. An id of -1:
/// y does not depend on x.
Val derivative(Val y, Val x, Val dy);

}  // namespace popxl::kernels
