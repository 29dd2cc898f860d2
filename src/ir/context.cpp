#include "ir/context.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ir.h"

namespace popxl::ir {

Context& Context::current() {
  thread_local Context context;
  return context;
}

void Context::pushGraph(Graph& g) {
  if (!graphs_.empty() && graphs_.back()->ir().id() != g.ir().id()) {
    fail(ErrorKind::kRuntime,
         "graph `{}` of Ir {} can't be entered inside graph `{}` of Ir {}; leave the other Ir's graph first",
         g.displayName(), g.ir().id(), graphs_.back()->displayName(), graphs_.back()->ir().id());
  }
  graphs_.push_back(&g);
  scopeBases_.push_back(scopes_.size());
}

void Context::popGraph() {
  POPXL_ASSERT(!graphs_.empty(), "no graph is entered");
  graphs_.pop_back();
  scopeBases_.pop_back();
}

Graph& Context::requireGraph() const {
  if (graphs_.empty()) {
    fail(ErrorKind::kRuntime,
         "no graph is entered; enter one around this code (Python: `with ir.main_graph:`, C++: a "
         "`GraphScope`)");
  }
  return *graphs_.back();
}

void Context::pushScope(std::string_view name) { scopes_.emplace_back(name); }
void Context::popScope() { scopes_.pop_back(); }

std::string Context::scopedName(std::string_view name) const {
  std::string out;
  for (size_t i = scopeBases_.empty() ? 0 : scopeBases_.back(); i < scopes_.size(); ++i)
    out += scopes_[i] + "/";
  return out.append(name);
}

void Context::pushSequence(SequenceMode mode) { levels_.push_back({mode, {}}); }

std::optional<SequenceMode> Context::sequence() const {
  if (levels_.empty()) return std::nullopt;
  return levels_.back().mode;
}

/// The frontier of a level for one graph and execution context; a new one starts where the level around it
/// stands.
Context::Frontier& Context::frontier(size_t level, const Key& key) {
  const auto it = levels_[level].at.find(key);
  if (it != levels_[level].at.end()) return it->second;
  Frontier fresh;
  if (level > 0 && levels_[level].mode != SequenceMode::kPass &&
      levels_[level - 1].mode != SequenceMode::kPass) {
    const Frontier& around = frontier(level - 1, key);
    const bool continues = levels_[level - 1].mode == SequenceMode::kOrdered && !around.tail.empty();
    fresh.entry = continues ? around.tail : around.entry;
  }
  return levels_[level].at.emplace(key, std::move(fresh)).first->second;
}

void Context::popSequence() {
  POPXL_ASSERT(!levels_.empty(), "no in_sequence is in force");
  const Level closed = std::move(levels_.back());
  levels_.pop_back();
  if (levels_.empty() || closed.mode == SequenceMode::kPass || levels_.back().mode == SequenceMode::kPass)
    return;
  for (const auto& [key, inner] : closed.at) {
    if (inner.tail.empty()) continue;
    Frontier& outer = frontier(levels_.size() - 1, key);
    if (levels_.back().mode == SequenceMode::kOrdered) {
      outer.tail = inner.tail;
    } else {
      outer.tail.insert(outer.tail.end(), inner.tail.begin(), inner.tail.end());
    }
  }
}

namespace {

/// Orders op after another; if that was removed, after what it had to follow.
void addAfter(Op& op, Op& before) {
  if (!before.erased()) return op.addAfter(&before);
  for (Op* earlier : before.after()) addAfter(op, *earlier);
}

}  // namespace

void Context::order(Op& op) {
  if (levels_.empty() || levels_.back().mode == SequenceMode::kPass) return;
  Frontier& here = frontier(levels_.size() - 1, {&op.graph(), op.settings().context});
  const bool ordered = levels_.back().mode == SequenceMode::kOrdered;
  for (Op* before : ordered && !here.tail.empty() ? here.tail : here.entry) addAfter(op, *before);
  if (ordered) here.tail.clear();
  here.tail.push_back(&op);
}

Settings Context::settings() const {
  Settings s;
  s.ipu = ipu();
  s.tileSet = tileSet();
  s.context = execution();
  const size_t base = scopeBases_.empty() ? 0 : scopeBases_.back();
  if (scopes_.size() > base) {
    std::string scope = scopedName("");
    scope.pop_back();
    s.scope = intern(scope);
  }
  return s;
}

namespace {

/// The IPU that an op leaves its results on: for a copy between IPUs the one it copies to.
int32_t resultIpu(const Op& op) {
  if (op.def().attrIndex("destination") < 0) return op.settings().ipu;
  return static_cast<int32_t>(op.attrOr<int64_t>("destination", -1));
}

/// Error(kValue) when operands that ops have made lie on different IPUs or tile sets. What runs graphs or
/// talks to the host may mix them.
void checkPlacement(const OpDef& def, const std::vector<Tensor*>& inputs) {
  if (def.structure != Structure::kNone) return;
  const Tensor* first = nullptr;
  size_t firstIndex = 0;
  const auto name = [&](size_t i) { return def.operands[std::min(i, def.operands.size() - 1)].name; };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* t = inputs[i];
    if (t == nullptr || t->producer() == nullptr || resultIpu(*t->producer()) < 0) continue;
    if (first == nullptr) {
      first = t;
      firstIndex = i;
      continue;
    }
    const Op &a = *first->producer(), &b = *t->producer();
    const bool io = a.settings().tileSet == TileSet::kIO, otherIo = b.settings().tileSet == TileSet::kIO;
    if (resultIpu(a) == resultIpu(b) && io == otherIo) continue;
    fail(ErrorKind::kValue,
         "operands `{}` ({}) and `{}` ({}) are on different {}: copy one of them with {} first",
         name(firstIndex), first->id(), name(i), t->id(), io == otherIo ? "IPUs" : "tile sets",
         io == otherIo ? "ipu_copy" : "io_tile_copy");
  }
}

}  // namespace

Op* Context::addOp(const OpDef& def, std::vector<Tensor*> inputs, std::vector<Attr> attrs, Loc loc,
                   bool inplace, std::vector<std::string> outputNames) {
  Graph& graph = requireGraph();
  checkPlacement(def, inputs);
  const bool scoped = scopes_.size() > (scopeBases_.empty() ? 0 : scopeBases_.back());
  if (scoped) {
    outputNames.resize(std::max(outputNames.size(), def.results.size()));
    for (std::string& name : outputNames) name = scopedName(name.empty() ? "t" : name);
  }
  Op* op = graph.addOp(
      def, {std::move(inputs), std::move(attrs), inplace, std::move(outputNames), settings(), loc});
  order(*op);
  if (!graph.hooks().empty()) {
    const auto hooks = graph.hooks();  // a hook may add or remove hooks
    for (const auto& [handle, hook] : hooks) hook(*op);
  }
  if (!hooks_.empty()) {
    const auto hooks = hooks_;
    for (const auto& [handle, hook] : hooks) hook(*op);
  }
  return op;
}

int64_t Context::addHook(Graph::Hook hook) {
  hooks_.emplace_back(nextHook_, std::move(hook));
  return nextHook_++;
}

void Context::removeHook(int64_t handle) {
  std::erase_if(hooks_, [&](const auto& entry) { return entry.first == handle; });
}

}  // namespace popxl::ir
