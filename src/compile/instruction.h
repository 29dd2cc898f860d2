#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "kernels/collective.h"
#include "kernels/kernel.h"

namespace popxl::compile {

/// Where an operand lies: a base that is known when an instruction runs, plus bytes.
struct Address {
  enum class Base : uint8_t {
    kNone,      ///< no memory: an operand that nothing reads
    kFrame,     ///< the frame of the graph that runs, which the next replica uses again
    kLane,      ///< the replica's own frame of the graph: what it needs on both sides of a collective
    kVariable,  ///< the replica's variables
    kShared,    ///< variables that no replica writes, and what is prepared of them: one copy for all
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

/// Exchanges the memory of all replicas.
struct RunCollective {
  kernels::CollectivePtr collective;
  Address from, to;
};

/// Runs another graph's code. Its arguments are the addresses of its inputs, then of its outputs.
///
/// Where the callee has a collective, `frame` and `table` are offsets in the replica's own frame; what the
/// callee needs of the other frame starts with this graph's, of which nothing is in use then.
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
  std::variant<RunKernel, RunCall, RunRepeat, RunConditional, RunHostLoad, RunHostStore, RunRemote, RunPrint,
               RunCollective>
      what;
  /// Ops that it carries out; the first is shown in listings.
  std::vector<const ir::Op*> ops;
  Cost cost;  ///< its own: none for a call, whose callee's instructions have theirs
};

}  // namespace popxl::compile
