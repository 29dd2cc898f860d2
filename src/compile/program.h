#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/instruction.h"
#include "ir/ir.h"

namespace popxl::compile {

/// A piece of a frame that is in use when the frame is fullest.
struct LiveBuffer {
  int64_t bytes = 0;
  const ir::Tensor* tensor = nullptr;  ///< null for scratch memory and frames
  const ir::Op* op = nullptr;          ///< that made it or needs it; may be null
  int32_t callee = -1;                 ///< the code whose frame it is
};

/// The compiled form of one graph, shared by all its call sites.
struct Code {
  const ir::Graph* graph = nullptr;
  std::vector<Instruction> instructions;
  /// Instructions that all replicas reach before one goes on: collectives, and what runs code with such.
  std::vector<int32_t> cuts;
  std::vector<bool> writesInput;   ///< whether running it writes the memory of an input
  int64_t frameBytes = 0;          ///< callee frames included; one replica after another uses it
  int64_t laneBytes = 0;           ///< of a replica's own frame, callees' included
  int64_t liveLowerBound = 0;      ///< the most bytes in use at once, callees' included: no plan goes below
  std::vector<LiveBuffer> atPeak;  ///< what is in use then
  const ir::Op* peakOp = nullptr;  ///< that runs then
};

/// Where a variable lies: at an offset in each replica's variables, or in those that all share.
struct VariablePlace {
  int64_t offset = 0;
  bool shared = false;
};

/// The order in which the tensors of a graph were made.
struct InOrder {
  bool operator()(const ir::Tensor* a, const ir::Tensor* b) const { return a->index() < b->index(); }
};

/// A variable that is kept in a remote buffer.
struct RemoteVariable {
  const ir::Tensor* tensor;
  int64_t buffer, entry;
  int64_t shardBytes;  ///< each replica keeps so much of it; that of the whole when it is not sharded
};

/// The product of compiling an Ir. Immutable; any number of replicas run it at once.
struct Program {
  std::shared_ptr<ir::Ir> ir;  ///< the rewritten clone that instructions refer to
  std::vector<Code> codes;     ///< the main graph's first
  /// What constants and variables that nothing writes determine (packed weights): run when the variables came
  /// from the host, of each replica and of all. The results lie behind the variables.
  Code preparation, sharedPreparation;
  std::vector<ir::Stream> streams;
  /// Of the clone's variables, in the same order in every process.
  std::map<const ir::Tensor*, VariablePlace, InOrder> variablePlaces;
  std::vector<RemoteVariable> remoteVariables;
  int64_t variableBytes = 0;  ///< a replica's variables and what is prepared
  int64_t sharedBytes = 0;    ///< the same that all replicas share
  int64_t constantBytes = 0;

  const Code& main() const { return codes.front(); }
  std::string str() const;                                     ///< a listing, one instruction a line
  std::string describe(const Instruction& instruction) const;  ///< the same without addresses and ops
};

}  // namespace popxl::compile
