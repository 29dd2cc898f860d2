#pragma once

#include <optional>

#include "ir/ir.h"

namespace popxl::analysis {

/// Two ops of one graph of which one writes memory that the other reads or writes, with nothing that orders
/// them.
struct Ambiguity {
  const ir::Op* writer;
  const ir::Op* other;
  const ir::Tensor* tensor;  ///< what `writer` writes
};

/// The first ambiguity of a graph. Only paths count (data, in_sequence, execution contexts): whether the
/// values would differ is not considered.
std::optional<Ambiguity> findAmbiguity(const ir::Graph& graph);

/// Error(kGraph) "Inplacing ambiguity detected." naming ops, tensor, lines and the cure, for any graph of the
/// Ir.
void checkAmbiguity(const ir::Ir& ir);

}  // namespace popxl::analysis
