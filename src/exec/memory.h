#pragma once

#include "compile/program.h"
#include "popxl/memory.h"

namespace popxl::exec {

/// How many replicas run at once: each needs a frame.
int64_t workersFor(int64_t replicas);

/// What a process with so many replicas needs to run a program.
MemoryReport memoryOf(const compile::Program& program, int64_t replicas);

}  // namespace popxl::exec
