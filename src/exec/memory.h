#pragma once

#include "compile/program.h"
#include "popxl/memory.h"

namespace popxl::exec {

/// What a process with so many replicas needs to run a program.
MemoryReport memoryOf(const compile::Program& program, int64_t replicas);

}  // namespace popxl::exec
