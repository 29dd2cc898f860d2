#include "api/custom_trace.h"

#include <algorithm>

#include "api/make_op.h"
#include "base/error.h"
#include "ir/text_values.h"
#include "ops/ops.h"

namespace popxl::api {
namespace {

/// Equal for uses that give the same graph.
std::string keyOf(const OpUse& use) {
  std::string key;
  for (const TensorSpec& spec : use.operands) key += ir::typeText({spec.dtype, spec.shape, {}}) + '|';
  for (const auto& [name, value] : use.attrs) {
    key += std::visit([](const auto& v) { return ir::attrText(ir::Attr(v)); }, value) + '|';
  }
  return key;
}

/// The ops whose compositions this thread is in, to find one that contains itself.
class InComposition {
 public:
  explicit InComposition(const ir::OpDef& def) {
    std::string path;
    for (const ir::OpDef* outer : stack()) {
      if (outer == &def || !path.empty()) path += fmt::format("`{}` uses ", outer->name);
    }
    if (!path.empty())
      fail(ErrorKind::kGraph, "the composition of an op contains the op: {}`{}`", path, def.name);
    stack().push_back(&def);
  }
  ~InComposition() { stack().pop_back(); }
  InComposition(const InComposition&) = delete;
  InComposition& operator=(const InComposition&) = delete;

 private:
  static std::vector<const ir::OpDef*>& stack() {
    thread_local std::vector<const ir::OpDef*> ops;
    return ops;
  }
};

void checkOps(const ir::Graph& graph, const ir::OpDef& def) {
  for (const ir::Op* op : graph.ops()) {
    const bool fits = op->def().structure == ir::Structure::kNone && !op->def().sideEffect &&
                      !op->modifiesAny() && op->aliases().empty();
    if (fits) continue;
    fail(ErrorKind::kGraph,
         "the composition of `{}` makes `{}` at {}; it can't hold ops that work in place, call graphs or "
         "have effects",
         def.name, op->name(), op->loc().str());
  }
}

Trace traced(const ir::OpDef& def, const std::vector<std::string>& names, const CustomOp::Composition& fn,
             const OpUse& use) {
  const InComposition here(def);
  const std::shared_ptr<ir::Ir> ir = ir::Ir::create(ops::table());
  ir::Graph& graph = ir->createGraph(def.name);
  const ir::FreshContext context(graph);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < use.operands.size(); ++i) {
    operands.push_back(wrap(graph.addInput(names[i], {use.operands[i].dtype, use.operands[i].shape, {}})));
  }
  Trace trace{{ir, &graph}, {}};
  const std::vector<Tensor> results = fn(use, operands);
  if (graph.inputs().size() != operands.size() || !graph.outputs().empty()) {
    fail(ErrorKind::kGraph,
         "the composition of `{}` uses `{}`: the op's inputs and outputs are the function's parameters and "
         "what it returns",
         def.name, graph.outputs().empty() ? "graph_input" : "graph_output");
  }
  for (const Tensor& t : results) {
    trace.results.push_back(t.get());
    if (t) graph.addOutput(t.get());
  }
  checkOps(graph, def);
  return trace;
}

}  // namespace

Trace Traces::of(const ir::OpDef& def, const std::vector<std::string>& names, const CustomOp::Composition& fn,
                 const OpUse& use) {
  const std::string key = keyOf(use);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto known = traces_.find(key); known != traces_.end()) return known->second;
  }
  Trace trace = traced(def, names, fn, use);
  const std::lock_guard<std::mutex> lock(mutex_);
  return traces_.try_emplace(key, std::move(trace)).first->second;
}

}  // namespace popxl::api
