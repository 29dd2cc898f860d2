#pragma once

#include <unordered_map>

#include "analysis/live.h"
#include "compile/channels_last.h"
#include "compile/program.h"

namespace popxl::compile {

/// What lowering one graph needs to know of the rest of the program.
struct LowerContext {
  const analysis::Liveness& liveness;
  const ChannelsLast& channelsLast;
  const std::map<const ir::Graph*, int32_t>& codeOf;  ///< callees are lowered before their callers
  const std::map<std::string, int32_t, std::less<>>& streams;
  Program& program;  ///< whose preparations are extended
};

/// The check that an op's power of two is in range, with that operand; null where the op has none or the Ir's
/// options leave it out.
kernels::KernelPtr makeScaleCheck(const ir::Op& op);

/// Compiles one graph: order, storage, fusion, kernels, memory plan.
Code lowerGraph(const ir::Graph& graph, const LowerContext& context);

}  // namespace popxl::compile
