#include "passes/recompute_views.h"

#include <algorithm>
#include <map>
#include <memory>

#include "algo/regions.h"
#include "analysis/value_uses.h"
#include "analysis/written.h"
#include "ir/graph_map.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;

bool isCall(const Op* op) { return op->def().structure == ir::Structure::kCall; }

/// When each memory of a graph is written, in the order in which its ops run.
class Writes {
 public:
  explicit Writes(const Graph& graph)
      : position_(graph, -1), memory_(static_cast<int32_t>(graph.numTensorSlots())) {
    for (const Op* op : graph.ops()) {
      for (const ir::Alias& a : op->aliases()) {
        memory_.unite(op->output(static_cast<size_t>(a.output))->index(),
                      op->input(static_cast<size_t>(a.input))->index());
      }
    }
    int32_t next = 0;
    for (const Op* op : graph.schedule()) {
      position_[op] = next++;
      for (size_t i = 0; i < op->inputs().size(); ++i) {
        if (op->input(i) != nullptr && op->modifies(i)) {
          writes_[memory_.find(op->input(i)->index())].push_back(position_[op]);
        }
      }
    }
  }

  /// Whether an op from `first` on and before `last` writes the memory of t.
  bool between(const Tensor* t, const Op* first, const Op* last) {
    if (t->index() >= memory_.size()) return false;  // a result that a call gained: nothing knew it
    const auto writes = writes_.find(memory_.find(t->index()));
    if (writes == writes_.end()) return false;
    const auto next = std::lower_bound(writes->second.begin(), writes->second.end(), position_[first]);
    return next != writes->second.end() && *next < position_[last];
  }

 private:
  ir::OpMap<int32_t> position_;
  algo::DisjointSets memory_;
  std::map<int32_t, std::vector<int32_t>> writes_;
};

/// One result of a called graph as views of a tensor of that graph.
struct Origin {
  Graph* graph = nullptr;
  size_t result = 0;
  Tensor* source = nullptr;
  std::vector<const Op*> views;  ///< the first is of `source`

  bool operator==(const Origin& other) const { return graph == other.graph && result == other.result; }
};

class Rewriter {
 public:
  explicit Rewriter(ir::Ir& ir) : sites_(analysis::callSites(ir)) {}

  bool run(Graph& callee) {
    const std::vector<Op*> sites = sites_[&callee];  // a copy: looking up others may move it
    if (sites.empty() || !std::all_of(sites.begin(), sites.end(), isCall)) return false;
    bool changed = false;
    const size_t inputs = callee.inputs().size();
    for (size_t i = 0; i < inputs; ++i) changed = rewrite(callee, sites, i) || changed;
    return changed;
  }

 private:
  bool rewrite(Graph& callee, const std::vector<Op*>& sites, size_t input) {
    Tensor* const own = callee.inputs()[input];
    if (own->uses().empty() || written(callee)(own)) return false;
    const Origin origin = originOf(*sites.front()->input(input));
    if (origin.views.empty()) return false;
    for (const Op* site : sites) {
      if (!(originOf(*site->input(input)) == origin) || !stillThere(origin, *site, input)) return false;
    }
    const int32_t place = sourcePlace(origin);
    if (place < 0 && !exportSource(origin)) return false;
    Tensor* t = passed(callee, sites, origin, input);
    for (const Op* view : origin.views) {
      t = callee
              .addOp(view->def(),
                     {{t}, view->attrs(), false, {view->output()->name()}, view->settings(), view->loc()})
              ->output();
    }
    callee.replaceAllUses(own, t);
    return true;
  }

  /// The input of the callee for the source: a new one unless all sites pass the source already.
  Tensor* passed(Graph& callee, const std::vector<Op*>& sites, const Origin& origin, size_t input) {
    const auto source = [&](const Op* site) { return sourceAt(origin, *site->input(input)->producer()); };
    for (size_t i = 0; i < callee.inputs().size(); ++i) {
      Tensor* const own = callee.inputs()[i];
      const auto passes = [&](const Op* site) { return site->input(i) == source(site); };
      if (!written(callee)(own) && std::all_of(sites.begin(), sites.end(), passes)) return own;
    }
    Tensor* const added = callee.addInput(origin.source->name(), origin.source->type());
    for (Op* site : sites) site->addInput(source(site));
    return added;
  }

  /// No views when t is no view of what a called graph had.
  Origin originOf(const Tensor& t) {
    const Op* call = t.producer();
    if (call == nullptr || !isCall(call) || written(t.graph())(&t)) return {};
    Origin origin{call->calledGraph(), 0, nullptr, {}};
    const auto& results = call->outputs();
    origin.result = static_cast<size_t>(std::find(results.begin(), results.end(), &t) - results.begin());
    origin.source = origin.graph->outputs()[origin.result];
    for (const Op* op = origin.source->producer();
         op != nullptr && op->def().view != nullptr && !op->inplace(); op = origin.source->producer()) {
      if (written(*origin.graph)(origin.source)) break;
      origin.views.insert(origin.views.begin(), op);
      origin.source = op->input(0);
    }
    if (origin.source->isPersistent() || written(*origin.graph)(origin.source)) return {};
    return origin;
  }

  /// Whether the source still has its value when `site` runs.
  bool stillThere(const Origin& origin, const Op& site, size_t input) {
    if (sourcePlace(origin) < 0) return true;
    const Op* call = site.input(input)->producer();
    const Tensor* source = call->input(static_cast<size_t>(sourcePlace(origin)));
    auto& writes = writes_[&site.graph()];
    if (writes == nullptr) writes = std::make_unique<Writes>(site.graph());
    return !writes->between(source, call, &site);
  }

  /// Which input of its graph the source is; -1 when it is made there.
  static int32_t sourcePlace(const Origin& origin) {
    const auto& inputs = origin.graph->inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), origin.source);
    return at == inputs.end() ? -1 : static_cast<int32_t>(at - inputs.begin());
  }

  /// Makes the source a result of its graph. False where the graph is run by other ops than calls.
  bool exportSource(const Origin& origin) {
    const std::vector<Op*>& sites = sites_[origin.graph];
    const auto& outputs = origin.graph->outputs();
    if (std::find(outputs.begin(), outputs.end(), origin.source) != outputs.end()) return true;
    if (!std::all_of(sites.begin(), sites.end(), isCall)) return false;
    origin.graph->addOutput(origin.source);
    for (Op* site : sites) site->addOutput(origin.source->name(), origin.source->type());
    return true;
  }

  static Tensor* sourceAt(const Origin& origin, const Op& call) {
    if (const int32_t place = sourcePlace(origin); place >= 0) return call.input(static_cast<size_t>(place));
    const auto& outputs = origin.graph->outputs();
    return call.output(
        static_cast<size_t>(std::find(outputs.begin(), outputs.end(), origin.source) - outputs.begin()));
  }

  const analysis::Written& written(const Graph& graph) {
    return written_.try_emplace(&graph, graph).first->second;
  }

  analysis::CallSites sites_;
  std::map<const Graph*, analysis::Written> written_;
  std::map<const Graph*, std::unique_ptr<Writes>> writes_;
};

}  // namespace

bool recomputeViews(ir::Ir& ir) {
  Rewriter rewriter(ir);
  return changeGraphs(ir, [&](Graph& graph) { return rewriter.run(graph); });
}

}  // namespace popxl::passes
