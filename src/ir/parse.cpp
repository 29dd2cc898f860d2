#include "ir/parse.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/parse_tree.h"
#include "ir/text_values.h"

namespace popxl::ir {
namespace {

using GraphTexts = std::vector<const GraphText*>;

/// Makes the tensors and ops of one graph whose callees are there.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, const GraphText& text, const Lexer& lexer)
      : graph_(graph), text_(text), lexer_(lexer) {
    for (const Stream& s : graph.ir().streams()) {
      if (graph.isMain()) tensors_.emplace(s.id(), s.tensor);
    }
  }

  void build() {
    collectNames();
    for (const InputText& input : text_.inputs) {
      define(input.name, graph_.addInput(input.name.name, input.type, input.byRef))->setLoc(input.loc);
    }
    for (const DeclarationText& d : text_.declarations) declare(d);
    makeOps();
    graph_.sortOps();
    for (const OpText& op : text_.ops) {
      for (const NameText& before : op.after) byId_.at(op.id)->addAfter(opNamed(before));
    }
    for (const NameText& output : text_.outputs) graph_.addOutput(tensorNamed(output));
    graph_.setCanBeDifferentiated(text_.differentiable);
  }

 private:
  void collectNames() {
    for (const InputText& input : text_.inputs) reserve(input.name);
    for (const DeclarationText& d : text_.declarations) reserve(d.name);
    for (const OpText& op : text_.ops) {
      for (const NameText& result : op.results) reserve(result);
    }
  }

  void reserve(const NameText& name) {
    if (name.name.empty()) lexer_.fail(name.at, "a tensor's name can't be empty");
    if (!names_.insert(name.name).second || tensors_.contains(name.name)) {
      lexer_.fail(name.at, fmt::format("there is already a tensor {} in graph {}", tensorText(name.name),
                                       graphText(graph_.id())));
    }
  }

  Tensor* define(const NameText& name, Tensor* t) {
    POPXL_ASSERT(t->name() == name.name, "tensor {} was named {}", name.name, t->name());
    tensors_.emplace(name.name, t);
    return t;
  }

  void declare(const DeclarationText& d) {
    if (d.kind == TensorKind::kVariable && !graph_.isMain()) {
      lexer_.fail(d.name.at, "variables stand in graph @main; other graphs take them as inputs");
    }
    Tensor* t = d.kind == TensorKind::kVariable   ? graph_.addVariable(d.name.name, d.type, d.data)
                : d.kind == TensorKind::kConstant ? graph_.addConstant(d.name.name, d.type, d.data)
                                                  : graph_.addStreamTensor(d.name.name, d.type);
    t->settings() = d.settings;
    define(d.name, t)->setLoc(d.loc);
  }

  Tensor* tensorNamed(const NameText& name) const {
    const auto it = tensors_.find(name.name);
    if (it == tensors_.end()) {
      lexer_.fail(name.at, fmt::format("there is no tensor {} in graph {}", tensorText(name.name),
                                       graphText(graph_.id())));
    }
    return it->second;
  }

  Op* opNamed(const NameText& name) const {
    if (name.name.starts_with('#')) {
      const auto it = byId_.find(std::stoll(name.name.substr(1)));
      if (it != byId_.end()) return it->second;
      lexer_.fail(name.at, fmt::format("there is no op {} in graph {}", name.name, graphText(graph_.id())));
    }
    Op* producer = tensorNamed(name)->producer();
    if (producer == nullptr)
      lexer_.fail(name.at, fmt::format("no op makes tensor {}", tensorText(name.name)));
    return producer;
  }

  /// An op may stand before the ops that make its operands (a rewrite made them later); it is then made after
  /// them.
  void makeOps() {
    std::unordered_map<std::string_view, std::vector<size_t>> waiting;
    std::vector<size_t> missing(text_.ops.size()), ready;
    for (size_t i = 0; i < text_.ops.size(); ++i) {
      for (const auto& operand : text_.ops[i].operands) {
        if (!operand || tensors_.contains(operand->name)) continue;
        if (!names_.contains(operand->name)) tensorNamed(*operand);
        waiting[operand->name].push_back(i);
        ++missing[i];
      }
      if (missing[i] == 0) ready.push_back(i);
      while (!ready.empty()) {
        const OpText& op = text_.ops[ready.back()];
        ready.pop_back();
        makeOp(op);
        for (const NameText& result : op.results) {
          const auto it = waiting.find(result.name);
          if (it == waiting.end()) continue;
          for (const size_t waiter : it->second) {
            if (--missing[waiter] == 0) ready.push_back(waiter);
          }
          waiting.erase(it);
        }
      }
    }
    for (size_t i = 0; i < missing.size(); ++i) {
      if (missing[i] != 0) lexer_.fail(text_.ops[i].at, "this op's operands wait for its own results");
    }
  }

  std::vector<Attr> attrsOf(const OpText& text) const {
    std::vector<Attr> attrs = text.attrs;
    attrs.resize(text.def->attrs.size());
    size_t next = 0;
    for (size_t i = 0; i < attrs.size() && next < text.graphs.size(); ++i) {
      if (text.def->attrs[i].type != AttrType::kGraph) continue;
      attrs[i] = graph_.ir().findGraph(text.graphs[next++].name);
    }
    if (next < text.graphs.size()) {
      lexer_.fail(text.graphs[next].at, fmt::format("`{}` takes {} graphs", text.def->name, next));
    }
    return attrs;
  }

  void makeOp(const OpText& text) {
    OpRequest request;
    for (const auto& operand : text.operands)
      request.inputs.push_back(operand ? tensors_.at(operand->name) : nullptr);
    request.attrs = attrsOf(text);
    request.inplace = text.inplace;
    for (const NameText& result : text.results) request.outputNames.push_back(result.name);
    request.settings = text.settings;
    request.loc = text.loc;
    const auto counters = graph_.ir().counters();
    graph_.ir().setCounters({text.id, counters.tensor, counters.graph});
    Op* op = nullptr;
    try {
      op = graph_.addOp(*text.def, std::move(request));
    } catch (const Error& error) {
      lexer_.fail(text.at, error.what(), error.kind());
    }
    finish(*op, text);
  }

  void finish(Op& op, const OpText& text) {
    byId_.emplace(text.id, &op);
    if (op.outputs().size() != text.results.size()) {
      lexer_.fail(text.at, fmt::format("`{}` has {} results here, but {} are named", op.name(),
                                       op.outputs().size(), text.results.size()));
    }
    if (!text.types.empty() && text.types.size() != text.results.size()) {
      lexer_.fail(text.types[0].at,
                  fmt::format("expected {} types, got {}", text.results.size(), text.types.size()));
    }
    for (size_t i = 0; i < text.results.size(); ++i) {
      Tensor* t = define(text.results[i], op.output(i));
      if (text.types.empty()) continue;
      const auto& [type, at] = text.types[i];
      if (type.dtype != t->dtype() || type.shape != t->shape()) {
        lexer_.fail(at, fmt::format("expected {} for {}, as the op's inference gives, got {}",
                                    t->type().str(), tensorText(t->name()), type.str()));
      }
      t->setMetaShape(type.metaShape);
    }
    for (const int32_t index : text.absent) {
      const AttrDef& def = text.def->attrs[static_cast<size_t>(index)];
      if (!def.optional) lexer_.fail(text.at, fmt::format("attribute `{}` can't be none", def.name));
      op.setAttr(def.name, {});
    }
    for (const int32_t index : text.modified) {
      if (index < 0 || index >= static_cast<int64_t>(op.inputs().size())) {
        lexer_.fail(text.at,
                    fmt::format("modified({}): `{}` has {} operands", index, op.name(), op.inputs().size()));
      }
      op.declareModified(index);
    }
  }

  Graph& graph_;
  const GraphText& text_;
  const Lexer& lexer_;
  std::unordered_set<std::string_view> names_;
  std::unordered_map<std::string_view, Tensor*> tensors_;
  std::unordered_map<int64_t, Op*> byId_;
};

void makeGraphs(Ir& ir, const IrText& tree, const Lexer& lexer) {
  bool mainSeen = false;
  for (const GraphText& g : tree.graphs) {
    if (g.id.name.empty() ? mainSeen : ir.findGraph(g.id.name) != nullptr) {
      lexer.fail(g.id.at, fmt::format("there is already a graph {}", graphText(g.id.name)));
    }
    mainSeen = mainSeen || g.id.name.empty();
    if (!g.id.name.empty()) ir.createGraphWithId(g.id.name);
  }
}

void makeStreams(Ir& ir, const IrText& tree, const Lexer& lexer) {
  std::unordered_set<std::string_view> names;
  for (const StreamText& s : tree.streams) {
    if (s.name.name.empty()) lexer.fail(s.name.at, "a stream's name can't be empty");
    if (!names.insert(s.name.name).second) {
      lexer.fail(s.name.at, fmt::format("there is already a stream {}", quoted(s.name.name)));
    }
    ir.addStream(s.name.name, s.type, s.direction).tensor->setLoc(s.loc);
  }
  for (const RemoteBuffer& b : tree.remoteBuffers) ir.addRemoteBuffer(b.type, b.entries).id = b.id;
}

/// Graphs after those that they call.
GraphTexts calleesFirst(const IrText& tree, const Lexer& lexer) {
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < tree.graphs.size(); ++i) index.emplace(tree.graphs[i].id.name, i);
  std::vector<std::vector<size_t>> callers(tree.graphs.size());
  std::vector<size_t> callees(tree.graphs.size());
  for (size_t i = 0; i < tree.graphs.size(); ++i) {
    for (const OpText& op : tree.graphs[i].ops) {
      for (const NameText& name : op.graphs) {
        const auto it = index.find(name.name);
        if (it == index.end()) lexer.fail(name.at, fmt::format("there is no graph {}", graphText(name.name)));
        callers[it->second].push_back(i);
        ++callees[i];
      }
    }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < callees.size(); ++i) {
    if (callees[i] == 0) order.push_back(i);
  }
  for (size_t done = 0; done < order.size(); ++done) {
    for (const size_t caller : callers[order[done]]) {
      if (--callees[caller] == 0) order.push_back(caller);
    }
  }
  for (size_t i = 0; i < callees.size(); ++i) {
    if (callees[i] != 0) {
      lexer.fail(tree.graphs[i].id.at,
                 fmt::format("graph {} calls itself, or graphs that do", graphText(tree.graphs[i].id.name)));
    }
  }
  GraphTexts out;
  for (const size_t i : order) out.push_back(&tree.graphs[i]);
  return out;
}

int64_t checkIds(const IrText& tree, const Lexer& lexer) {
  std::unordered_set<int64_t> ids;
  int64_t next = 0;
  for (const GraphText& g : tree.graphs) {
    for (const OpText& op : g.ops) {
      if (!ids.insert(op.id).second) lexer.fail(op.at, fmt::format("there is already an op #{}", op.id));
      next = std::max(next, op.id + 1);
    }
  }
  if (tree.counters && tree.counters->op < next)
    lexer.fail(0, fmt::format("the counter of ops is not above op #{}", next - 1));
  return next;
}

}  // namespace

std::shared_ptr<Ir> buildTree(const IrText& tree, const OpTable& table, const Lexer& lexer) {
  const int64_t nextOp = checkIds(tree, lexer);
  auto ir = Ir::create(table);
  ir->options() = tree.options;
  ir->setHostTransfers(tree.hostTransfers);
  makeGraphs(*ir, tree, lexer);
  makeStreams(*ir, tree, lexer);
  for (const GraphText* g : calleesFirst(tree, lexer))
    GraphBuilder(*ir->findGraph(g->id.name), *g, lexer).build();
  ir->setCounters(tree.counters.value_or(Ir::Counters{nextOp, 0, 0}));
  return ir;
}

std::shared_ptr<Ir> parse(std::string_view text, const OpTable& table, const ParseOptions& options) {
  Lexer lexer(text);
  const IrText tree = parseTree(lexer, table, options);
  return buildTree(tree, table, lexer);
}

}  // namespace popxl::ir
