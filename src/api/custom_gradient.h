#pragma once

#include "ir/grad_context.h"

/// Gradient rules of a program's own ops.
namespace popxl::api {

/// The ops that the user's composition makes.
void composeGradient(ir::GradContext& c);
/// The op `NAME_grad`, which calls the user's function.
void makeGradientOp(ir::GradContext& c);
/// The op's composition once more, differentiated.
void differentiateBody(ir::GradContext& c);

}  // namespace popxl::api
