#pragma once

#include <memory>

#include "compile/program.h"

namespace popxl::compile {

/// Compiles an Ir to a Program. The Ir is not changed; it may be extended and compiled again. Error(kGraph)
/// for in-place ambiguities (when the Ir's options ask for the check) and graphs that cannot be ordered.
std::shared_ptr<const Program> compile(const ir::Ir& ir);

/// A Program without instructions, for an interpreter: checked, copied, its variables placed. Errors as
/// `compile`.
std::shared_ptr<const Program> prepare(const ir::Ir& ir);

}  // namespace popxl::compile
