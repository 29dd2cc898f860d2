#include "analysis/ambiguity.h"

#include <algorithm>
#include <map>

#include "algo/regions.h"
#include "analysis/dependences.h"
#include "base/error.h"
#include "ir/graph_map.h"

namespace popxl::analysis {
namespace {

struct Accesses {
  std::vector<int32_t> writers, readers;
};

/// Which tensors of a graph share memory.
class Memory {
 public:
  explicit Memory(const ir::Graph& graph) : index_(graph, -1) {
    for (const ir::Op* op : graph.ops()) {
      for (const ir::Alias& alias : op->aliases()) {
        groups_.unite(indexOf(op->output(static_cast<size_t>(alias.output))),
                      indexOf(op->input(static_cast<size_t>(alias.input))));
      }
    }
  }
  int32_t groupOf(const ir::Tensor* t) { return groups_.find(indexOf(t)); }

 private:
  int32_t indexOf(const ir::Tensor* t) {
    if (index_[t] < 0) {
      index_[t] = groups_.size();
      groups_.add();
    }
    return index_[t];
  }

  ir::TensorMap<int32_t> index_;
  algo::DisjointSets groups_;
};

/// Writers and readers of every group of tensors that share memory and that some op writes.
std::map<int32_t, Accesses> collectAccesses(const ir::Graph& graph) {
  Memory memory(graph);
  std::map<int32_t, Accesses> accesses;
  for (size_t n = 0; n < graph.ops().size(); ++n) {
    const ir::Op& op = *graph.ops()[n];
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) == nullptr) continue;
      Accesses& a = accesses[memory.groupOf(op.input(i))];
      (op.modifies(i) ? a.writers : a.readers).push_back(static_cast<int32_t>(n));
    }
  }
  std::erase_if(accesses, [](const auto& entry) { return entry.second.writers.empty(); });
  for (auto& [group, a] : accesses) {  // an op that also writes is a writer
    std::sort(a.writers.begin(), a.writers.end());
    a.writers.erase(std::unique(a.writers.begin(), a.writers.end()), a.writers.end());
    std::erase_if(a.readers,
                  [&](int32_t r) { return std::binary_search(a.writers.begin(), a.writers.end(), r); });
  }
  return accesses;
}

/// Error(kGraph) where a call passes memory by reference twice: the called graph would write it under one
/// name and read it under the other, and its own ops can't be ordered for that.
void checkReferences(const ir::Graph& graph) {
  std::optional<Memory> memory;
  for (const ir::Op* op : graph.ops()) {
    if (op->calledGraph() == nullptr || !op->modifiesAny()) continue;
    if (!memory) memory.emplace(graph);
    std::map<int32_t, const ir::Tensor*> passed;
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      if (!op->modifies(i)) continue;
      const ir::Tensor* t = op->input(i);
      const auto [first, fresh] = passed.emplace(memory->groupOf(t), t);
      if (fresh) continue;
      fail(ErrorKind::kGraph,
           "`{}` at {} passes the same memory by reference twice to graph `{}`, as `{}` and as `{}`: pass "
           "one of "
           "them by value, or both as one input",
           op->name(), op->loc().str(), op->calledGraph()->displayName(), first->second->id(), t->id());
    }
  }
}

}  // namespace

std::optional<Ambiguity> findAmbiguity(const ir::Graph& graph) {
  if (std::none_of(graph.ops().begin(), graph.ops().end(),
                   [](const ir::Op* op) { return op->modifiesAny(); })) {
    return std::nullopt;
  }
  const algo::Dag dag = dependences(graph);
  algo::Reachability paths(dag);
  for (const auto& [group, accesses] : collectAccesses(graph)) {
    const auto pair = paths.unorderedPair(accesses.writers, accesses.readers);
    if (!pair) continue;
    const bool firstWrites =
        std::binary_search(accesses.writers.begin(), accesses.writers.end(), pair->first);
    const ir::Op* writer = graph.ops()[static_cast<size_t>(firstWrites ? pair->first : pair->second)];
    const ir::Op* other = graph.ops()[static_cast<size_t>(firstWrites ? pair->second : pair->first)];
    for (size_t i = 0; i < writer->inputs().size(); ++i) {
      if (writer->input(i) != nullptr && writer->modifies(i))
        return Ambiguity{writer, other, writer->input(i)};
    }
  }
  return std::nullopt;
}

void checkAmbiguity(const ir::Ir& ir) {
  for (const ir::Graph* graph : ir.graphs()) {
    checkReferences(*graph);
    const auto found = findAmbiguity(*graph);
    if (!found) continue;
    const bool writes = found->other->modifiesAny();
    fail(ErrorKind::kGraph,
         "Inplacing ambiguity detected. In graph `{}` nothing orders two ops on the memory of tensor `{}`:\n"
         "  `{}` at {} writes it\n  `{}` at {} {} it\n"
         "The result would depend on which runs first: put both in one `with popxl.in_sequence():` block, or "
         "use the op "
         "that does not work in place.",
         graph->displayName(), found->tensor->id(), found->writer->name(), found->writer->loc().str(),
         found->other->name(), found->other->loc().str(), writes ? "may write" : "reads");
  }
}

}  // namespace popxl::analysis
