#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "compile/fuse.h"
#include "compile/lower.h"
#include "compile/storage.h"

namespace popxl::compile {

/// A place in memory before offsets are planned.
struct Ref {
  int32_t buffer = -1;  ///< -1: nothing
  int64_t offset = 0;   ///< bytes
};

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
    int32_t step;
  };

  /// What a callee changed of a by-reference operand that had to be copied for it.
  struct CopyBack {
    size_t operand;
    Ref from;
  };

  // lowering.cpp
  void findBufferUses();
  void chooseResultBuffers();
  void emitResultCopies();
  Ref refOf(const ir::Tensor* t) const { return {storages_.at(t).buffer, storages_.at(t).byteOffset()}; }
  Ref temporary(int64_t bytes);
  Ref contiguous(const ir::Tensor* t);
  void emit(Instruction instruction, std::vector<Ref> refs);
  void emitKernel(kernels::KernelPtr kernel, std::vector<Ref> refs, std::vector<const ir::Op*> ops);
  void emitCopy(const Storage& from, Ref to, const ir::Op* op);
  bool diesHere(int32_t buffer) const;
  int32_t resolve(int32_t buffer) const;

  // lower_steps.cpp
  void lowerStep(const Step& step);
  void lowerElementwise(const Step& step);
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
  void lowerKernel(const ir::Op& op);

  // lower_calls.cpp
  void lowerCall(const ir::Op& op);
  void lowerRepeat(const ir::Op& op);
  void lowerConditional(const ir::Op& op);
  const Code& codeOf(const ir::Graph& callee) const;
  Ref argument(const ir::Op& op, size_t operand, const Code& callee, size_t input, bool callWrites,
               std::vector<CopyBack>& copyBack);
  void addResultRefs(const ir::Op& op, const ir::Graph& callee, std::vector<Ref>& refs);
  void copyBackByRef(const ir::Op& op, const std::vector<CopyBack>& copyBack);

  // plan_memory.cpp
  void planMemory(Code& code);
  Address addressOf(const Ref& ref, const std::vector<int64_t>& offsets) const;
  void patch(Draft& draft, const std::vector<int64_t>& offsets);

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
};

}  // namespace popxl::compile
