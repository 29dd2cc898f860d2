#pragma once

#include <exception>

#include "base/error.h"
#include "ir/op_def.h"
#include "popxl/custom_op.h"

/// Functions of a program's own ops at work.
namespace popxl::api {

OpUse useOf(const ir::Op& op);

/// What `work`, a function of the user's, returns; what it throws becomes an Error, of `kind` where it was
/// none.
template <typename Work>
auto guarded(ErrorKind kind, const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(kind, error.what()));
  }
}

/// The kernel that calls a function; the function belongs to the op's entry.
kernels::KernelPtr arrayKernel(const ir::Op& op, const CustomOp::ArrayFunction& fn);
/// The same in the reference engine.
void runOnArrays(ir::ReferenceContext& c, const CustomOp::ArrayFunction& fn);

}  // namespace popxl::api
