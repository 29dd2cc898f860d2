#include "compile/channels_last.h"

#include <algorithm>
#include <unordered_map>

#include "algo/regions.h"
#include "base/error.h"
#include "ir/loop.h"

namespace popxl::compile {
namespace {

bool isElementwise(const ir::OpDef& def) {
  return def.expr != nullptr && !def.reducesAxes && !def.reducesToOutput;
}

bool takesChannelsLast(const ir::OpDef& def, size_t operand) {
  return operand < def.operands.size() && def.operands[operand].channelsLast;
}

bool givesChannelsLast(const ir::OpDef& def, size_t result) {
  return result < def.results.size() && def.results[result].channelsLast;
}

/// Whether the order of the dimensions makes a difference, and some kernel knows the other one.
bool hasImageType(const ir::Tensor& t) {
  const Shape& s = t.shape();
  return t.dtype() == DType::kFloat32 && s.size() >= 3 && s.size() <= 5 && s[1] > 1 &&
         numElements(s) > s[0] * s[1];
}

/// Whether the tensor's own producer and users allow it to lie channels last.
bool mayLieChannelsLast(const ir::Tensor& t) {
  if (!hasImageType(t) || (t.kind() != ir::TensorKind::kActivation && t.kind() != ir::TensorKind::kInput)) {
    return false;
  }
  if (const ir::Op* op = t.producer()) {
    const bool made = isElementwise(op->def()) || op->calledGraph() != nullptr ||
                      givesChannelsLast(op->def(), static_cast<size_t>(t.producerIndex()));
    if (!made) return false;
  }
  return std::none_of(t.uses().begin(), t.uses().end(), [](const ir::Use& use) {
    const ir::Op& op = *use.op;
    if (op.inplace() && op.def().view != nullptr) return true;  // has to be a view of this very memory
    return op.calledGraph() == nullptr && !isElementwise(op.def()) &&
           op.modifies(static_cast<size_t>(use.index));
  });
}

/// Sets of tensors that lie alike in any case, and pairs of sets that had better.
class Chooser {
 public:
  explicit Chooser(const analysis::Liveness& liveness) : liveness_(liveness) {}

  void visit(const ir::Graph& graph) {
    for (const ir::Op* op : graph.ops()) {
      if (!liveness_.live(*op)) continue;
      if (op->calledGraph() != nullptr) {
        joinCall(*op);
      } else {
        joinAliases(*op);
        linkNeighbours(*op);
      }
    }
  }

  /// The tensors of all sets that may lie channels last and to which a preference leads.
  std::unordered_set<const ir::Tensor*> choose() {
    const auto n = static_cast<size_t>(sets_.size());
    std::vector<bool> possible(n, true), chosen(n, false);
    for (const auto& [t, index] : indices_) {
      if (!mayLieChannelsLast(*t)) possible[setOf(index)] = false;
    }
    for (const int32_t index : kept_) possible[setOf(index)] = false;
    std::vector<std::vector<size_t>> neighbours(n);
    for (const auto& [a, b] : links_) {
      neighbours[setOf(a)].push_back(setOf(b));
      neighbours[setOf(b)].push_back(setOf(a));
    }
    std::vector<size_t> work;
    for (const int32_t index : preferred_) work.push_back(setOf(index));
    while (!work.empty()) {
      const size_t set = work.back();
      work.pop_back();
      if (!possible[set] || chosen[set]) continue;
      chosen[set] = true;
      work.insert(work.end(), neighbours[set].begin(), neighbours[set].end());
    }
    std::unordered_set<const ir::Tensor*> tensors;
    for (const auto& [t, index] : indices_) {
      if (chosen[setOf(index)]) tensors.insert(t);
    }
    return tensors;
  }

 private:
  size_t setOf(int32_t index) { return static_cast<size_t>(sets_.find(index)); }

  int32_t indexOf(const ir::Tensor* t) {
    const auto [it, fresh] = indices_.emplace(t, sets_.size());
    if (fresh) sets_.add();
    return it->second;
  }

  void join(const ir::Tensor* a, const ir::Tensor* b) {
    if (hasImageType(*a)) sets_.unite(indexOf(a), indexOf(b));
  }

  /// Slices, and what they are of, keep the order of their dimensions.
  void keep(const ir::Tensor* t) {
    if (hasImageType(*t)) kept_.push_back(indexOf(t));
  }

  /// What a graph takes and gives lies as at the place of its call.
  void joinCall(const ir::Op& op) {
    if (op.def().structure == ir::Structure::kRepeat) return joinRepeat(op);
    size_t operand = ir::firstInput(op);
    for (const ir::Graph* graph : op.calledGraphs()) {
      for (const ir::Tensor* input : graph->inputs()) join(input, op.input(operand++));
      for (size_t i = 0; i < graph->outputs().size(); ++i) join(graph->outputs()[i], op.output(i));
    }
  }

  void joinRepeat(const ir::Op& op) {
    const ir::Loop loop(op);
    const auto& inputs = loop.body->inputs();
    const auto& outputs = loop.body->outputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Tensor* operand = op.input(loop.first + i);
      if (loop.isScanned(i)) {
        keep(inputs[i]);
        keep(operand);
      } else {
        join(inputs[i], operand);
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (loop.isStacked(i)) {
        keep(outputs[i]);
        keep(op.output(i));
      } else {
        join(outputs[i], op.output(i));
        join(inputs[i], outputs[i]);
      }
    }
  }

  void joinAliases(const ir::Op& op) {
    for (const ir::Alias& a : op.aliases()) {
      join(op.output(static_cast<size_t>(a.output)), op.input(static_cast<size_t>(a.input)));
    }
  }

  void linkNeighbours(const ir::Op& op) {
    const ir::OpDef& def = op.def();
    const bool elementwise = isElementwise(def);
    std::vector<int32_t> images;
    const auto add = [&](const ir::Tensor* t, bool readily) {
      if (t == nullptr || t->isPersistent() || !hasImageType(*t)) return;
      if (readily || (elementwise && t->shape() == op.output()->shape())) images.push_back(indexOf(t));
    };
    for (size_t i = 0; i < op.inputs().size(); ++i) add(op.input(i), takesChannelsLast(def, i));
    for (size_t i = 0; i < op.outputs().size(); ++i) add(op.output(i), givesChannelsLast(def, i));
    for (size_t i = 1; i < images.size(); ++i) links_.emplace_back(images[0], images[i]);
    if (def.prefersChannelsLast != nullptr && def.prefersChannelsLast(op)) {
      preferred_.insert(preferred_.end(), images.begin(), images.end());
    }
  }

  const analysis::Liveness& liveness_;
  std::unordered_map<const ir::Tensor*, int32_t> indices_;
  algo::DisjointSets sets_;
  std::vector<std::pair<int32_t, int32_t>> links_;
  std::vector<int32_t> preferred_, kept_;
};

}  // namespace

ChannelsLast::ChannelsLast(const std::vector<const ir::Graph*>& graphs, const analysis::Liveness& liveness) {
  const bool wanted = std::any_of(graphs.begin(), graphs.end(), [](const ir::Graph* graph) {
    return std::any_of(graph->ops().begin(), graph->ops().end(), [](const ir::Op* op) {
      return op->def().prefersChannelsLast != nullptr && op->def().prefersChannelsLast(*op);
    });
  });
  if (!wanted) return;
  Chooser chooser(liveness);
  for (const ir::Graph* graph : graphs) chooser.visit(*graph);
  chosen_ = chooser.choose();
}

Layout ChannelsLast::layoutOf(const ir::Tensor* t) const {
  if ((*this)(t)) return {t->dtype(), t->shape(), channelsLastStrides(t->shape())};
  return {t->dtype(), t->shape()};
}

}  // namespace popxl::compile
