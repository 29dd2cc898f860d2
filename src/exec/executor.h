#pragma once

#include <span>
#include <vector>

#include "compile/program.h"
#include "exec/recorder.h"
#include "exec/remote_memory.h"

namespace popxl::exec {

/// Host memory behind one stream for one run: `entries` tensors per replica, entry e of replica r at
/// data + (e * replicas + r) * bytes of one tensor.
struct StreamCursor {
  std::byte* data = nullptr;
  int64_t entries = 0;
  int64_t next = 0;
};

/// Runs a Program on one replica's memory. Allocates nothing after construction, unless it is recorded.
class Executor {
 public:
  explicit Executor(const compile::Program& program);

  /// Runs the program's preparation on variables that came from the host.
  void prepare(std::byte* frame, std::byte* variables);

  /// Runs the main graph once. `frame` holds program.main().frameBytes, `variables` program.variableBytes;
  /// one cursor per stream of the program. Error(kValue) when a stream runs out of entries, or a remote
  /// buffer has no such entry.
  void run(std::byte* frame, std::byte* variables, const RemoteMemory& remote,
           std::span<StreamCursor> streams, int64_t replica, int64_t replicas);

  /// From now on takes the time of every instruction; null: no more.
  void setRecorder(Recorder* recorder) { recorder_ = recorder; }

 private:
  void runCode(const compile::Code& code, std::byte* frame, std::byte* const* arguments);
  void runRecorded(const compile::Code& code, std::byte* frame, std::byte* const* arguments);
  void execute(const compile::Instruction& instruction, std::byte* frame, std::byte* const* arguments);
  void runKernel(const compile::RunKernel& k, std::byte* frame, std::byte* const* arguments);
  void runCall(const compile::RunCall& call, std::byte* frame, std::byte* const* arguments);
  void runRepeat(const compile::RunRepeat& repeat, std::byte* frame, std::byte* const* arguments);
  void runRemote(const compile::RunRemote& remote, const ir::Op& op, std::byte* frame,
                 std::byte* const* arguments);
  std::byte* nextEntry(int32_t stream, int64_t bytes, const ir::Op& op);
  std::byte* pointer(const compile::Address& a, std::byte* frame, std::byte* const* arguments) const {
    switch (a.base) {
      case compile::Address::Base::kFrame:
        return frame + a.offset;
      case compile::Address::Base::kVariable:
        return variables_ + a.offset;
      case compile::Address::Base::kArgument:
        return arguments[a.index] + a.offset;
      case compile::Address::Base::kConstant:
        return const_cast<std::byte*>(a.pointer) + a.offset;
      case compile::Address::Base::kNone:
        break;
    }
    return nullptr;
  }

  const compile::Program& program_;
  std::vector<std::byte*> operands_;  // of the kernel that runs; sized for the one with most
  std::byte* variables_ = nullptr;
  const RemoteMemory* remote_ = nullptr;
  std::span<StreamCursor> streams_;
  int64_t replica_ = 0, replicas_ = 1;
  Recorder* recorder_ = nullptr;
};

}  // namespace popxl::exec
