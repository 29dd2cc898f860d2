#pragma once

#include "ir/op.h"

namespace popxl::exec {

/// Writes a tensor to file descriptor 2 as op `print_tensor` asks (title, brackets, digits, summarised when
/// large).
void printTensor(const ir::Op& op, const std::byte* data);

}  // namespace popxl::exec
