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

/// Writers and readers of every group of tensors that share memory and that some op writes.
std::map<int32_t, Accesses> collectAccesses(const ir::Graph& graph) {
  ir::TensorMap<int32_t> index(graph, -1);
  algo::DisjointSets groups;
  const auto indexOf = [&](const ir::Tensor* t) {
    if (index[t] < 0) {
      index[t] = groups.size();
      groups.add();
    }
    return index[t];
  };
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Alias& alias : op->aliases()) {
      groups.unite(indexOf(op->output(static_cast<size_t>(alias.output))),
                   indexOf(op->input(static_cast<size_t>(alias.input))));
    }
  }
  std::map<int32_t, Accesses> accesses;
  for (size_t n = 0; n < graph.ops().size(); ++n) {
    const ir::Op& op = *graph.ops()[n];
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) == nullptr) continue;
      Accesses& a = accesses[groups.find(indexOf(op.input(i)))];
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
