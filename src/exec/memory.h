#pragma once

#include "compile/program.h"
#include "exec/exchange.h"
#include "popxl/memory.h"

namespace popxl::exec {

/// How many replicas run at once: each needs a frame.
int64_t workersFor(int64_t replicas);

/// What this process needs to run a program on its replicas.
MemoryReport memoryOf(const compile::Program& program, const Exchange& exchange);

}  // namespace popxl::exec
