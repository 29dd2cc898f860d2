#pragma once

#include <span>
#include <vector>

#include "compile/program.h"
#include "exec/engine.h"

namespace popxl::exec {

/// Runs a Program on one replica's memory. Allocates nothing after construction, unless it is recorded.
class Executor final : public Engine {
 public:
  explicit Executor(const compile::Program& program);

  void prepare(std::byte* frame, std::byte* variables) override;
  void run(std::byte* frame, std::byte* variables, const RemoteMemory& remote,
           std::span<StreamCursor> streams, int64_t replica, int64_t replicas) override;

  bool hasInstructions() const override { return true; }
  void setRecorder(Recorder* recorder) override { recorder_ = recorder; }

 private:
  void runCode(const compile::Code& code, std::byte* frame, std::byte* const* arguments);
  void runRecorded(const compile::Code& code, std::byte* frame, std::byte* const* arguments);
  void execute(const compile::Instruction& instruction, std::byte* frame, std::byte* const* arguments);
  void runKernel(const compile::RunKernel& k, std::byte* frame, std::byte* const* arguments);
  void runCall(const compile::RunCall& call, std::byte* frame, std::byte* const* arguments);
  void runRepeat(const compile::RunRepeat& repeat, const ir::Op& op, std::byte* frame,
                 std::byte* const* arguments);
  void placeIteration(const compile::RunRepeat& repeat, int64_t k, int64_t slice, std::byte** table,
                      std::byte* frame, std::byte* const* arguments) const;
  void settleRepeat(const compile::RunRepeat& repeat, int64_t done, std::byte* frame,
                    std::byte* const* arguments) const;
  void runRemote(const compile::RunRemote& remote, const ir::Op& op, std::byte* frame,
                 std::byte* const* arguments);
  std::byte* nextEntry(int32_t stream, const ir::Op& op);
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
