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

/// Runs a body `count` times, or as often as `trips` says, or while carried value 0 is true, `count` times at
/// most. Carried value i is read by iteration 0 at `inputs[i]`, by iteration k where iteration k - 1 wrote
/// it. Two buffers alternate: a fixed number of iterations ends in `final`; else iteration 0 writes `final`,
/// and what the last one wrote is copied there where it has to be.
struct RunRepeat {
  int32_t code = 0;
  int64_t count = 0;
  Address trips;  ///< one integer; none where the count is not given when the program runs
  DType tripsType = DType::kInt32;
  bool whileTrue = false, reverse = false;
  std::vector<Address> inputs;  ///< of the body; of carried values those of iteration 0, of slices slice 0
  std::vector<int64_t> slices;  ///< of each input the bytes from one slice to the next; 0: always the same
  struct Carried {
    Address final, other;  ///< other: none when nothing needs it
    int64_t bytes = 0;
  };
  std::vector<Carried> carried;
  /// An output of which all iterations' values are kept.
  struct Stack {
    Address first;
    int64_t bytes = 0;   ///< of one slice
    bool needed = true;  ///< else all iterations write the same memory
  };
  std::vector<Stack> stacks;
  /// Inputs that have the operand's value in every iteration though the body writes them: copied before each.
  struct Fresh {
    size_t input = 0;
    Address to;
    int64_t bytes = 0;
  };
  std::vector<Fresh> fresh;
  int64_t frame = 0, table = 0;

  bool hasFixedCount() const { return trips.base == Address::Base::kNone && !whileTrue; }
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

/// The work of one run of an instruction, from which its time is predicted: what no implementation avoids.
struct Cost {
  double flops = 0;  ///< floating-point operations
  double bytes = 0;  ///< of operands read and results written; scratch memory is not counted
};

struct Instruction {
  std::variant<RunKernel, RunCall, RunRepeat, RunConditional, RunHostLoad, RunHostStore, RunRemote, RunPrint>
      what;
  /// Ops that it carries out; the first is shown in listings.
  std::vector<const ir::Op*> ops;
  Cost cost;  ///< its own: none for a call, whose callee's instructions have theirs
};

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
  std::vector<bool> writesInput;   ///< whether running it writes the memory of an input
  int64_t frameBytes = 0;          ///< callee frames included
  int64_t liveLowerBound = 0;      ///< the most bytes in use at once, callees' included: no plan goes below
  std::vector<LiveBuffer> atPeak;  ///< what is in use then
  const ir::Op* peakOp = nullptr;  ///< that runs then
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
  /// from the host. The results lie behind the variables.
  Code preparation;
  std::vector<ir::Stream> streams;
  std::map<const ir::Tensor*, int64_t> variableOffsets;  ///< of the clone's variables
  std::vector<RemoteVariable> remoteVariables;
  int64_t variableBytes = 0;  ///< a replica's variables and what is prepared
  int64_t constantBytes = 0;

  const Code& main() const { return codes.front(); }
  std::string str() const;                                     ///< a listing, one instruction a line
  std::string describe(const Instruction& instruction) const;  ///< the same without addresses and ops
};

}  // namespace popxl::compile
