#pragma once

#include "base/sha256.h"
#include "ir/graph.h"

namespace popxl::analysis {

/// A digest of what a graph computes: its ops in their order with attributes, operands and types, and its
/// constants; not of names, of places in the user's program, of values of variables, or of what is in the
/// graphs that it calls. The same in every process. For finding things, not for proving that two graphs are
/// the same.
Digest fingerprint(const ir::Graph& graph);

}  // namespace popxl::analysis
