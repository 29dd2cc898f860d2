#pragma once

#include <vector>

#include "compile/program.h"
#include "exec/engine.h"

namespace popxl::exec {

/// Where the operands of a graph's instructions lie while one replica runs it.
struct Frame {
  std::byte* work = nullptr;              ///< used by one replica after another
  std::byte* own = nullptr;               ///< the replica's own
  std::byte* const* arguments = nullptr;  ///< what the caller passed
  std::byte* variables = nullptr;
  std::byte* shared = nullptr;

  std::byte* at(const compile::Address& a) const {
    switch (a.base) {
      case compile::Address::Base::kFrame:
        return work + a.offset;
      case compile::Address::Base::kLane:
        return own + a.offset;
      case compile::Address::Base::kVariable:
        return variables + a.offset;
      case compile::Address::Base::kShared:
        return shared + a.offset;
      case compile::Address::Base::kArgument:
        return arguments[a.index] + a.offset;
      case compile::Address::Base::kConstant:
        return const_cast<std::byte*>(a.pointer) + a.offset;
      case compile::Address::Base::kNone:
        break;
    }
    return nullptr;
  }
};

/// Runs instructions that concern one replica alone, for one replica after another. Allocates nothing after
/// construction, unless it is recorded.
class Worker {
 public:
  explicit Worker(const compile::Program& program);

  /// The replica that it works for from now on.
  void enter(Lane& lane, int64_t replica, int64_t replicas);
  void setRecorder(Recorder* recorder) { recorder_ = recorder; }
  /// Instructions [begin, end) of a code, none of which is a cut.
  void run(const compile::Code& code, size_t begin, size_t end, const Frame& frame);

 private:
  void execute(const compile::Instruction& instruction, const Frame& frame);
  void runKernel(const compile::RunKernel& k, const Frame& frame);
  void runCall(const compile::RunCall& call, const Frame& frame);
  void runRepeat(const compile::RunRepeat& repeat, const ir::Op& op, const Frame& frame);
  void runCallee(int32_t code, int64_t offset, std::byte* const* arguments, const Frame& frame);
  void runRemote(const compile::RunRemote& remote, const ir::Op& op, const Frame& frame);
  std::byte* nextEntry(int32_t stream, const ir::Op& op);

  const compile::Program& program_;
  std::vector<std::byte*> operands_;  // of the kernel that runs; sized for the one with most
  Lane* lane_ = nullptr;
  int64_t replica_ = 0, replicas_ = 1;
  Recorder* recorder_ = nullptr;
};

/// Writes the addresses of a call's arguments to a table.
void passArguments(const compile::RunCall& call, const Frame& frame, std::byte** table);
/// How often a repeat runs, or may run while its condition holds.
int64_t iterationsOf(const compile::RunRepeat& repeat, const ir::Op& op, const Frame& frame);
/// Tells iteration k of a repeat, on a slice, where its inputs and outputs lie.
void placeIteration(const compile::RunRepeat& repeat, int64_t k, int64_t slice, const Frame& frame,
                    std::byte** table);
/// After a number of iterations that the program decided: carried values to where they end, zeros to the
/// slices of iterations that did not run.
void settleRepeat(const compile::RunRepeat& repeat, int64_t done, const Frame& frame);

}  // namespace popxl::exec
