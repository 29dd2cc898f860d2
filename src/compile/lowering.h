#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "algo/offsets.h"
#include "analysis/written.h"
#include "compile/fuse.h"
#include "compile/lower.h"
#include "compile/storage.h"
#include "ir/loop.h"

namespace popxl::compile {

/// A place in memory before offsets are planned.
struct Ref {
  int32_t buffer = -1;  ///< -1: nothing
  int64_t offset = 0;   ///< bytes
  int64_t bytes = 0;    ///< that an instruction reads or writes of it, for its cost
};

/// A step after all others: what is read then is never free.
inline constexpr int32_t kForever = INT32_MAX;

/// The work of lowerGraph: turns steps into instructions on Refs, then plans the local buffers and resolves
/// the Refs.
class GraphLowering {
 public:
  GraphLowering(const ir::Graph& graph, const LowerContext& context);
  Code run();

 private:
  // An instruction whose addresses are still Refs, listed in the order in which the final form holds them.
  struct Draft {
    Instruction instruction;
    std::vector<Ref> refs;
  };

  /// What a callee changed of a by-reference operand that had to be copied for it.
  struct CopyBack {
    size_t operand;
    Ref from;
  };

  // The instructions that touch a buffer.
  struct Lifetime {
    int32_t first = INT32_MAX, last = -1;
  };

  // lowering.cpp
  void findBufferUses();
  void chooseResultBuffers();
  void emitResultCopies();
  Ref refOf(const ir::Tensor* t) const;
  Ref temporary(int64_t bytes);
  Ref frameFor(int32_t code);
  Ref contiguous(const ir::Tensor* t);
  Ref asPassed(const ir::Tensor* t);
  void emit(Instruction instruction, std::vector<Ref> refs);
  void emitKernel(kernels::KernelPtr kernel, std::vector<Ref> refs, std::vector<const ir::Op*> ops);
  void emitKernel(kernels::KernelPtr kernel, std::vector<Ref> refs, std::vector<const ir::Op*> ops,
                  double flops);
  void emitCopy(const Storage& from, Ref to, const ir::Op* op);
  void emitCopy(const Storage& from, Ref to, const Layout& layout, const ir::Op* op);
  void emitPreparation(kernels::Kernel& kernel, const ir::Op& op, std::vector<Ref>& refs);
  bool isFixed(const Buffer& buffer);
  bool diesHere(int32_t buffer) const;
  int32_t resolve(int32_t buffer) const;

  // lower_steps.cpp
  void lowerStep(const Step& step);
  void lowerElementwise(const Step& step);
  void lowerScaleCheck(const ir::Op& op);
  void lowerUpdate(const ir::Op& op);
  std::vector<const ir::Tensor*> storedResults(const Step& step) const;
  void reuseDyingOperand(const ir::Tensor* result, const std::vector<const ir::Tensor*>& operands);
  std::vector<const ir::Tensor*> addOperands(const GroupExpr& group, const Shape& space,
                                             std::vector<Layout>& layouts, std::vector<Ref>& refs);
  void copyOverlapping(const GroupExpr& group, const std::vector<const ir::Tensor*>& stored,
                       std::vector<Layout>& layouts, std::vector<Ref>& refs);
  void lowerRemote(const ir::Op& op);
  void lowerReduction(const ir::Op& op);
  void lowerView(const ir::Op& op);
  ir::KernelContext kernelContext(const ir::Op& op, std::vector<Ref>& refs);
  void emitKernelOf(const ir::Op& op, const ir::KernelContext& context, std::vector<Ref> refs);
  void lowerKernel(const ir::Op& op);

  // lower_calls.cpp
  void lowerCall(const ir::Op& op);
  void lowerRepeat(const ir::Op& op);
  Ref carriedStart(const ir::Op& op, size_t operand, bool written, Ref& start);
  void lowerCarried(const ir::Op& op, const ir::Loop& loop, RunRepeat& run, std::vector<Ref>& inputs,
                    std::vector<Ref>& refs);
  void lowerStacks(const ir::Op& op, const ir::Loop& loop, RunRepeat& run, std::vector<Ref>& refs);
  bool takesOver(Ref& start, int32_t from);
  void lowerConditional(const ir::Op& op);
  void lowerCollective(const ir::Op& op);
  const Code& codeOf(const ir::Graph& callee) const;
  Ref argument(const ir::Op& op, size_t operand, bool written, bool callWrites,
               std::vector<CopyBack>& copyBack);
  void addResultRefs(const ir::Op& op, const ir::Graph& callee, std::vector<Ref>& refs);
  void copyBackByRef(const ir::Op& op, const std::vector<CopyBack>& copyBack);

  // plan_memory.cpp
  void planMemory(Code& code);
  std::vector<Lifetime> lifetimes() const;
  void findCuts(Code& code) const;
  algo::LivePeak placeBuffers(const std::vector<Lifetime>& lives, Code& code,
                              std::vector<Address>& places) const;
  void notePeak(const std::vector<Lifetime>& lives, int32_t instruction, Code& code) const;
  Address addressOf(const Ref& ref, const std::vector<Address>& places) const;
  void patch(Draft& draft, const std::vector<Address>& places);

  const ir::Graph& graph_;
  const LowerContext& context_;
  std::vector<ir::Op*> order_;
  std::optional<StorageMap> storageMap_;
  StorageMap& storages_;
  std::vector<Step> steps_;
  int32_t step_ = 0;
  std::vector<int32_t> lastRead_;    // per buffer: last step that touches it
  std::vector<int32_t> mergedInto_;  // per buffer: takes over another's memory, or -1
  std::vector<Draft> drafts_;
  std::optional<analysis::Written> written_;  // made when first asked
};

}  // namespace popxl::compile
