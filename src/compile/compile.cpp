#include "compile/compile.h"

#include <unordered_set>

#include "algo/offsets.h"
#include "analysis/ambiguity.h"
#include "analysis/calls.h"
#include "analysis/live.h"
#include "base/logging.h"
#include "compile/group_expr.h"
#include "compile/lower.h"

namespace popxl::compile {
namespace {

/// Graphs that the main graph reaches, callees before callers.
void postOrder(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen,
               std::vector<const ir::Graph*>& out) {
  if (!seen.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Graph* callee : op->calledGraphs()) postOrder(*callee, seen, out);
  }
  out.push_back(&graph);
}

/// Operands whose value an op's kernel looks at, worked out once per op.
class ReadOperands {
 public:
  bool operator()(const ir::Op& op, size_t i) {
    if (op.modifies(i)) return true;
    if (op.def().structure == ir::Structure::kHostLoad) return false;  // the operand only gives the shape
    if (op.def().expr == nullptr) return true;
    auto it = uses_.find(&op);
    if (it == uses_.end()) it = uses_.emplace(&op, operandUses(op)).first;
    return it->second[i].value || it->second[i].element;
  }

 private:
  std::unordered_map<const ir::Op*, std::vector<OperandUse>> uses_;
};

void placeVariables(const ir::Graph& main, const analysis::Liveness&, Program& program) {
  for (const ir::Tensor* t : main.tensors()) {
    if (t->kind() != ir::TensorKind::kVariable) continue;
    program.variableOffsets[t] = program.variableBytes;
    const int64_t unit = algo::kOffsetAlignment;
    program.variableBytes += (t->type().bytes() + unit - 1) / unit * unit;
  }
}

int64_t constantBytes(const std::vector<const ir::Graph*>& graphs) {
  std::unordered_set<const ir::HostData*> seen;
  int64_t bytes = 0;
  for (const ir::Graph* g : graphs) {
    for (const ir::Tensor* t : g->tensors()) {
      if (t->kind() == ir::TensorKind::kConstant && seen.insert(t->data().get()).second)
        bytes += t->type().bytes();
    }
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const Program> compile(const ir::Ir& ir) {
  // The checks see the program as its author wrote it; the rest works on a copy that may be rewritten.
  analysis::checkCalls(ir);
  if (ir.options().enableInplaceAmbiguityChecking) analysis::checkAmbiguity(ir);
  auto program = std::make_shared<Program>();
  program->ir = ir.clone();
  const ir::Graph& main = program->ir->mainGraph();
  program->streams = program->ir->streams();

  // What no effect depends on is neither computed nor kept.
  auto reads = std::make_shared<ReadOperands>();
  const analysis::Liveness liveness(*program->ir,
                                    [reads](const ir::Op& op, size_t i) { return (*reads)(op, i); });
  placeVariables(main, liveness, *program);

  // Each graph is compiled once, whatever the number of calls; a caller needs its callees' frame sizes.
  std::vector<const ir::Graph*> graphs;
  std::unordered_set<const ir::Graph*> seen;
  postOrder(main, seen, graphs);
  program->constantBytes = constantBytes(graphs);
  std::map<const ir::Graph*, int32_t> codeOf;
  for (size_t i = 0; i + 1 < graphs.size(); ++i) codeOf[graphs[i]] = static_cast<int32_t>(i) + 1;
  codeOf[&main] = 0;
  std::map<std::string, int32_t, std::less<>> streams;
  for (size_t i = 0; i < program->streams.size(); ++i)
    streams[program->streams[i].id()] = static_cast<int32_t>(i);
  program->codes.resize(graphs.size());
  const LowerContext context{liveness, program->variableOffsets, codeOf, program->codes, streams};
  for (const ir::Graph* g : graphs) {
    program->codes[static_cast<size_t>(codeOf.at(g))] = lowerGraph(*g, context);
  }
  log().debug("compiled {} graphs: {} bytes of frame, {} of variables", graphs.size(),
              program->main().frameBytes, program->variableBytes);
  return program;
}

}  // namespace popxl::compile
