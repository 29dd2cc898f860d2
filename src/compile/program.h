#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/ir.h"
#include "kernels/kernel.h"

namespace popxl::compile {

/// Where an operand lies: a base that is known when an instruction runs, plus bytes.
struct Address {
  enum class Base : uint8_t {
    kNone,      ///< no memory: an operand that nothing reads
    kFrame,     ///< the frame of the graph that runs
    kVariable,  ///< the replica's variables
    kArgument,  ///< what the caller passed: argument `index`
    kConstant,  ///< host memory of a constant: `pointer`
  };
  Base base = Base::kNone;
  int32_t index = 0;
  int64_t offset = 0;  ///< bytes
  const std::byte* pointer = nullptr;
};

struct RunKernel {
  kernels::KernelPtr kernel;
  std::vector<Address> operands;  ///< inputs, outputs, scratch when the kernel wants some
};

/// Runs another graph's code. Its arguments are the addresses of its inputs, then of its outputs.
struct RunCall {
  int32_t code = 0;
  std::vector<Address> arguments;
  int64_t frame = 0;  ///< offset of the callee's frame in this frame
  int64_t table = 0;  ///< offset of the pointer table in this frame
};

/// Runs a body `count` times. Carried value i is read by iteration k where iteration k - 1 wrote it; the two
/// buffers alternate so that the last iteration writes `finals[i]`. The initial value lies where iteration 0
/// reads.
struct RunRepeat {
  int32_t code = 0;
  int64_t count = 0;
  std::vector<Address> inputs;  ///< of the body; those of carried values are not used
  std::vector<Address> finals;  ///< one per carried value
  std::vector<Address> others;  ///< the second buffer of each
  /// Inputs that are the same in every iteration though the body writes them: copied anew before each.
  struct Fresh {
    Address from, to;
    int64_t bytes = 0;
  };
  std::vector<Fresh> fresh;
  int64_t frame = 0, table = 0;
};

struct RunConditional {
  Address condition;  ///< one bool
  RunCall then, otherwise;
};

struct RunHostLoad {
  int32_t stream;  ///< index into Program::streams
  Address to;
  int64_t bytes;
};
struct RunHostStore {
  int32_t stream;
  Address from;
  int64_t bytes;
};
/// Copies an entry of a remote buffer to the device's memory, or back.
struct RunRemote {
  bool stores;
  int64_t buffer;  ///< number of the remote buffer
  DType entryType;
  Address entry, data;
  int64_t bytes;
};
struct RunPrint {
  Address from;
};

struct Instruction {
  std::variant<RunKernel, RunCall, RunRepeat, RunConditional, RunHostLoad, RunHostStore, RunRemote, RunPrint>
      what;
  /// Ops that it carries out; the first is shown in profiles.
  std::vector<const ir::Op*> ops;
};

/// The compiled form of one graph, shared by all its call sites.
struct Code {
  const ir::Graph* graph = nullptr;
  std::vector<Instruction> instructions;
  std::vector<bool> writesInput;  ///< whether running it writes the memory of an input
  int64_t frameBytes = 0;         ///< callee frames included
  int64_t liveLowerBound = 0;     ///< bytes that no plan of this frame can go below
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
  std::vector<ir::Stream> streams;
  std::map<const ir::Tensor*, int64_t> variableOffsets;  ///< of the clone's variables
  std::vector<RemoteVariable> remoteVariables;
  int64_t variableBytes = 0;  ///< a replica's variables
  int64_t constantBytes = 0;

  const Code& main() const { return codes.front(); }
  std::string str() const;  ///< a listing, one instruction a line
};

}  // namespace popxl::compile
