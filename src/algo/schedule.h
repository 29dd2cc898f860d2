#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algo/ragged.h"
#include "algo/toposort.h"

namespace popxl::algo {

/// What a buffer costs.
enum class Storage : uint8_t {
  kTemporary,  ///< counts from the first op that writes it (from the start when none does) to the last that
               ///< touches it
  kKept,       ///< counts from the first op that writes it to the end: a result
  kExternal,   ///< lies elsewhere and costs nothing: variables, constants, what a caller provides
};

/// Ops are the rows of `inputs` and `outputs`, which hold tensor ids. Tensors give the data dependences (each
/// is the output of at most one op); buffers give the memory.
struct ScheduleProblem {
  Ragged inputs;
  Ragged outputs;
  std::vector<int32_t>
      bufferOf;  ///< per tensor: views and in-place results share a buffer. Empty: tensor t is buffer t.
  std::vector<int64_t> bytes;     ///< per buffer
  std::vector<Storage> storage;   ///< per buffer. Empty: all temporary.
  std::vector<Edge> constraints;  ///< op before op, besides the data dependences

  int32_t numOps() const { return inputs.numRows(); }
  int32_t buffer(int32_t tensor) const { return bufferOf.empty() ? tensor : bufferOf[tensor]; }
};

/// Data dependences and constraints as edges between ops.
Dag dependences(const ScheduleProblem& problem);

/// An order of the ops that respects all dependences and keeps few bytes live: among the ops that are ready
/// it takes the one that adds the fewest live bytes (written buffers that were not live, minus buffers that
/// no later op touches), then the one that writes the fewest new bytes, then the lowest id. O(n log n). Fewer
/// than numOps() ops when the dependences have a cycle: findCycle(dependences(problem)) names it.
std::vector<int32_t> scheduleForLiveness(const ScheduleProblem& problem);

/// The most bytes live at any op of `order`, an op's inputs and outputs being live together.
int64_t peakLiveBytes(const ScheduleProblem& problem, std::span<const int32_t> order);

}  // namespace popxl::algo
