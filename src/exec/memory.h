#pragma once

#include "compile/program.h"
#include "popxl/memory.h"
#include "popxl/remote_storage.h"

namespace popxl::exec {

/// How many replicas run at once: each needs a frame.
int64_t workersFor(int64_t replicas);

/// What a process needs to run so many replicas of a program.
MemoryReport memoryOf(const compile::Program& program, int64_t replicas, const RemoteStorage& storage = {});

}  // namespace popxl::exec
