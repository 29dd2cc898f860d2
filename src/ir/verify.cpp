#include "ir/verify.h"

#include <algorithm>
#include <unordered_map>

#include "algo/toposort.h"
#include "base/error.h"
#include "ir/graph_map.h"
#include "ir/text_values.h"

namespace popxl::ir {
namespace {

/// The op as the text form shows it, also when what is wrong with it keeps it from being printed.
std::string lineOf(const Op& op) {
  const bool printable =
      op.attrs().size() == op.def().attrs.size() &&
      std::none_of(op.outputs().begin(), op.outputs().end(), [](const Tensor* t) { return t == nullptr; });
  return printable ? op.str() : fmt::format("{} #{}", op.name(), op.id());
}

[[noreturn]] void broken(const Graph& graph, const std::string& what) {
  throw InternalError(fmt::format("the program is broken in graph `{}`: {}", graph.displayName(), what));
}

[[noreturn]] void broken(const Op& op, const std::string& what) {
  constexpr std::ptrdiff_t kAround = 2;
  const auto& ops = op.graph().ops();
  const auto at = std::find(ops.begin(), ops.end(), &op);
  std::string text = fmt::format("op `{}`: {}\n  made at {}", op.name(), what, op.loc().str());
  if (at != ops.end()) {
    const auto first = at - std::min(kAround, at - ops.begin()),
               last = at + std::min(kAround, ops.end() - at - 1);
    for (auto it = first; it <= last; ++it)
      text += fmt::format("\n  {} {}", it == at ? '>' : ' ', lineOf(**it));
  }
  broken(op.graph(), text);
}

bool fits(AttrType type, const Attr& value) {
  switch (type) {
    case AttrType::kInt:
      return std::holds_alternative<int64_t>(value);
    case AttrType::kFloat:
      return std::holds_alternative<double>(value);
    case AttrType::kBool:
      return std::holds_alternative<bool>(value);
    case AttrType::kString:
      return std::holds_alternative<std::string>(value);
    case AttrType::kInts:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttrType::kFloats:
      return std::holds_alternative<std::vector<double>>(value);
    case AttrType::kDType:
      return std::holds_alternative<DType>(value);
    case AttrType::kGraph:
      return std::holds_alternative<Graph*>(value) && std::get<Graph*>(value) != nullptr;
  }
  return false;
}

class GraphVerifier {
 public:
  GraphVerifier(const Graph& graph, const std::vector<Graph*>& graphs)
      : graph_(graph), graphs_(graphs), position_(graph, -1), numUses_(graph, 0) {}

  void run() {
    for (const Op* op : graph_.ops()) {
      position_[op] = static_cast<int32_t>(operandsBefore_.size());
      operandsBefore_.push_back(numOperands_);
      numOperands_ += op->inputs().size();
    }
    seenOperands_.assign(numOperands_, false);
    names();
    for (const Tensor* t : graph_.inputs()) {
      member(t, "an input");
      if (t->kind() != TensorKind::kInput)
        broken(graph_, fmt::format("input {} is no input tensor", t->name()));
    }
    for (const Tensor* t : graph_.outputs()) member(t, "an output");
    for (const Op* op : graph_.ops()) {
      operands(*op);
      attributes(*op);
      constraints(*op);
    }
    for (const Tensor* t : graph_.tensors()) tensor(*t);
    order();
    for (const Op* op : graph_.ops()) results(*op);
  }

 private:
  bool has(const Tensor* t) const { return t != nullptr && &t->graph() == &graph_ && !t->erased(); }
  bool has(const Op* op) const { return op != nullptr && &op->graph() == &graph_ && position_[op] >= 0; }

  void member(const Tensor* t, std::string_view what) const {
    if (!has(t)) broken(graph_, fmt::format("{} is not among its tensors", what));
  }

  void names() const {
    for (const Tensor* t : graph_.tensors()) {
      if (graph_.find(t->name()) != t)
        broken(graph_, fmt::format("two tensors are named {}", tensorText(t->name())));
    }
  }

  void operands(const Op& op) {
    const auto& defs = op.def().operands;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      const bool variadic = !defs.empty() && defs.back().arity == Arity::kVariadic;
      if (i >= defs.size() && !variadic)
        broken(op, fmt::format("it has {} operands, not {}", op.inputs().size(), defs.size()));
      const OperandDef& def = defs[std::min(i, defs.size() - 1)];
      const Tensor* t = op.inputs()[i];
      if (t == nullptr) {
        if (def.arity == Arity::kOne) broken(op, fmt::format("operand `{}` is missing", def.name));
        continue;
      }
      if (!has(t)) broken(op, fmt::format("operand {} (`{}`) is not a tensor of this graph", i, def.name));
      if ((def.dtypes & bit(t->dtype())) == 0) {
        broken(op, fmt::format("operand {} (`{}`) can't be {}", i, def.name, nameOf(t->dtype())));
      }
      ++numUses_[t];
    }
    for (size_t i = 0; i < op.outputs().size(); ++i) {
      const Tensor* t = op.outputs()[i];
      if (!has(t)) broken(op, fmt::format("result {} is not a tensor of this graph", i));
      if (t->producer() != &op || t->producerIndex() != static_cast<int32_t>(i)) {
        broken(op, fmt::format("result {} does not name this op as its producer", tensorText(t->name())));
      }
    }
  }

  void attributes(const Op& op) const {
    const auto& defs = op.def().attrs;
    if (op.attrs().size() != defs.size())
      broken(op, fmt::format("it has {} attributes, not {}", op.attrs().size(), defs.size()));
    for (size_t i = 0; i < defs.size(); ++i) {
      const Attr& value = op.attrs()[i];
      if (std::holds_alternative<std::monostate>(value) ? !defs[i].optional : !fits(defs[i].type, value)) {
        broken(op, fmt::format("attribute `{}` has no value of its type", defs[i].name));
      }
      const auto* callee = std::get_if<Graph*>(&value);
      if (callee != nullptr && std::find(graphs_.begin(), graphs_.end(), *callee) == graphs_.end()) {
        broken(op, fmt::format("attribute `{}` is a graph that is not in this Ir", defs[i].name));
      }
    }
    for (const int32_t i : op.declaredModified()) {
      if (i < 0 || i >= static_cast<int64_t>(op.inputs().size()))
        broken(op, fmt::format("it modifies operand {}, which it has not", i));
    }
  }

  void constraints(const Op& op) const {
    for (const Op* before : op.after()) {
      if (!has(before)) broken(op, "it runs after an op that is not in this graph");
    }
  }

  /// Whether it is one, and was not asked for before.
  bool isNewUse(const Tensor& t, const Use& use) {
    if (!has(use.op) || use.op->input(static_cast<size_t>(use.index)) != &t) return false;
    const size_t first = operandsBefore_[static_cast<size_t>(position_[use.op])];
    auto seen = seenOperands_[first + static_cast<size_t>(use.index)];
    if (seen) return false;
    seen = true;
    return true;
  }

  void tensor(const Tensor& t) {
    const auto listed = static_cast<int32_t>(t.uses().size());
    if (listed != numUses_[&t] ||
        !std::all_of(t.uses().begin(), t.uses().end(), [&](const Use& use) { return isNewUse(t, use); })) {
      broken(graph_, fmt::format("tensor {} lists {} uses, but has {}, or others", tensorText(t.name()),
                                 listed, numUses_[&t]));
    }
    if (t.kind() == TensorKind::kActivation && !has(t.producer())) {
      broken(graph_, fmt::format("tensor {} has no producer in this graph", tensorText(t.name())));
    }
    const int64_t bytes = t.type().bytes() * t.settings().numGroups;
    if (t.data() != nullptr && t.data()->size != bytes) {
      broken(graph_, fmt::format("tensor {} has {} bytes of data, its type takes {}", tensorText(t.name()),
                                 t.data()->size, bytes));
    }
  }

  void order() const {
    std::vector<algo::Edge> edges;
    for (const Op* op : graph_.ops()) {
      for (const Tensor* t : op->inputs()) {
        if (t != nullptr && t->producer() != nullptr)
          edges.push_back({position_[t->producer()], position_[op]});
      }
      for (const Op* before : op->after()) edges.push_back({position_[before], position_[op]});
    }
    const bool forwards =
        std::all_of(edges.begin(), edges.end(), [](const algo::Edge& e) { return e.before < e.after; });
    if (forwards) return;
    const algo::Dag dag(static_cast<int32_t>(graph_.ops().size()), edges);
    if (algo::topologicalOrder(dag).size() == graph_.ops().size()) return;
    std::string cycle;
    for (const int32_t i : algo::findCycle(dag))
      cycle += "\n  " + lineOf(*graph_.ops()[static_cast<size_t>(i)]);
    broken(graph_, "these ops wait for each other:" + cycle);
  }

  void results(const Op& op) const {
    std::vector<TensorType> types;
    try {
      op.def().infer(op, types);
    } catch (const Error& error) {
      broken(op, fmt::format("its inference refuses it: {}", error.what()));
    }
    if (types.size() != op.outputs().size()) {
      broken(op, fmt::format("it has {} results, inference gives {}", op.outputs().size(), types.size()));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const Tensor& t = *op.output(i);
      if (types[i].dtype == t.dtype() && types[i].shape == t.shape()) continue;
      broken(op, fmt::format("result {} is {}, inference gives {}", tensorText(t.name()), t.type().str(),
                             types[i].str()));
    }
  }

  const Graph& graph_;
  const std::vector<Graph*>& graphs_;
  OpMap<int32_t> position_;             // among the ops; -1: removed
  std::vector<size_t> operandsBefore_;  // operands of all earlier ops, by position
  size_t numOperands_ = 0;
  TensorMap<int32_t> numUses_;
  std::vector<bool> seenOperands_;  // found as uses of their tensors
};

void noRecursion(const std::vector<Graph*>& graphs) {
  std::unordered_map<const Graph*, int32_t> index;
  for (const Graph* g : graphs) index.emplace(g, static_cast<int32_t>(index.size()));
  std::vector<algo::Edge> edges;
  for (const Graph* g : graphs) {
    for (const Op* op : g->ops()) {
      for (const Graph* callee : op->calledGraphs()) {
        if (const auto at = index.find(callee); at != index.end()) edges.push_back({at->second, index.at(g)});
      }
    }
  }
  const algo::Dag dag(static_cast<int32_t>(graphs.size()), edges);
  const auto cycle = algo::findCycle(dag);
  if (!cycle.empty())
    broken(*graphs[static_cast<size_t>(cycle.front())], "it calls itself, or graphs that call it");
}

}  // namespace

void verify(const Ir& ir) {
  const std::vector<Graph*> graphs = ir.graphs();
  noRecursion(graphs);  // first: inference of a call follows calls
  for (const Graph* g : graphs) GraphVerifier(*g, graphs).run();
  for (const Stream& s : ir.streams()) {
    if (s.tensor == nullptr || s.tensor->erased() || &s.tensor->graph() != &ir.mainGraph()) {
      broken(ir.mainGraph(), "a stream has no tensor there");
    }
  }
}

}  // namespace popxl::ir
