#include "algo/schedule.h"

#include <algorithm>

#include "algo/regions.h"
#include "base/error.h"
#include "ir/graph_map.h"

namespace popxl::ir {
namespace {

/// Ops of one execution context as a scheduling problem on integers.
class ContextProblem {
 public:
  ContextProblem(const Graph& graph, const std::vector<Op*>& ops)
      : graph_(graph), ops_(ops), opIndex_(graph, -1), tensorIndex_(graph, -1) {
    for (size_t i = 0; i < ops.size(); ++i) opIndex_[ops[i]] = static_cast<int32_t>(i);
  }

  std::vector<Op*> solve() {
    addOps();
    addBuffers();
    const std::vector<int32_t> order = algo::scheduleForLiveness(problem_);
    if (order.size() < ops_.size()) reportCycle();
    std::vector<Op*> out;
    out.reserve(order.size());
    for (const int32_t i : order) out.push_back(ops_[static_cast<size_t>(i)]);
    return out;
  }

 private:
  int32_t indexOf(const Tensor* t) {
    int32_t& index = tensorIndex_[t];
    if (index < 0) {
      index = static_cast<int32_t>(tensors_.size());
      tensors_.push_back(t);
    }
    return index;
  }

  void addOps() {
    std::vector<int32_t> row;
    for (const Op* op : ops_) {
      row.clear();
      for (const Tensor* t : op->inputs()) {
        if (t != nullptr) row.push_back(indexOf(t));
      }
      problem_.inputs.addRow(row);
      row.clear();
      for (const Tensor* t : op->outputs()) row.push_back(indexOf(t));
      problem_.outputs.addRow(row);
      for (const Op* before : op->after()) {
        if (opIndex_[before] >= 0) problem_.constraints.push_back({opIndex_[before], opIndex_[op]});
      }
    }
  }

  void addBuffers() {
    algo::DisjointSets groups(static_cast<int32_t>(tensors_.size()));
    for (const Op* op : ops_) {
      for (const Alias& alias : op->aliases()) {
        groups.unite(tensorIndex_[op->output(static_cast<size_t>(alias.output))],
                     tensorIndex_[op->input(static_cast<size_t>(alias.input))]);
      }
    }
    const size_t n = tensors_.size();
    problem_.bufferOf.resize(n);
    problem_.bytes.assign(n, 0);
    problem_.storage.assign(n, algo::Storage::kTemporary);
    for (size_t i = 0; i < n; ++i) {
      const auto buffer = static_cast<size_t>(groups.find(static_cast<int32_t>(i)));
      problem_.bufferOf[i] = static_cast<int32_t>(buffer);
      problem_.bytes[buffer] =
          std::max(problem_.bytes[buffer], std::max<int64_t>(tensors_[i]->type().bytes(), 0));
      const Op* producer = tensors_[i]->producer();
      if (producer == nullptr || opIndex_[producer] < 0) problem_.storage[buffer] = algo::Storage::kExternal;
    }
    for (const Tensor* t : graph_.outputs()) {
      const int32_t index = tensorIndex_[t];
      if (index < 0) continue;
      auto& storage = problem_.storage[static_cast<size_t>(problem_.bufferOf[static_cast<size_t>(index)])];
      if (storage == algo::Storage::kTemporary) storage = algo::Storage::kKept;
    }
  }

  [[noreturn]] void reportCycle() const {
    std::string names;
    for (const int32_t i : algo::findCycle(algo::dependences(problem_))) {
      names += "\n  " + ops_[static_cast<size_t>(i)]->str();
    }
    fail(ErrorKind::kGraph, "graph `{}` can't be ordered: these ops wait for each other:{}",
         graph_.displayName(), names);
  }

  const Graph& graph_;
  const std::vector<Op*>& ops_;
  OpMap<int32_t> opIndex_;  // -1: of another context
  TensorMap<int32_t> tensorIndex_;
  std::vector<const Tensor*> tensors_;
  algo::ScheduleProblem problem_;
};

}  // namespace

void Graph::checkContexts() const {
  for (const Op* op : ops_) {
    for (const Tensor* t : op->inputs()) {
      const Op* producer = t == nullptr ? nullptr : t->producer();
      if (producer == nullptr || producer->settings().context <= op->settings().context) continue;
      fail(ErrorKind::kGraph,
           "graph `{}` can't be ordered: `{}` at {} runs in an earlier execution context than `{}` at {}, "
           "whose "
           "result `{}` it reads; make both in one context",
           displayName(), op->name(), op->loc().str(), producer->name(), producer->loc().str(), t->id());
    }
  }
}

std::vector<Op*> Graph::schedule() const {
  checkContexts();
  std::vector<Op*> out;
  out.reserve(ops_.size());
  for (const auto context : {ExecutionContext::kWeightsFromHost, ExecutionContext::kNormal,
                             ExecutionContext::kAccumulateOuter, ExecutionContext::kWeightsToHost}) {
    std::vector<Op*> ops;
    for (Op* op : ops_) {
      if (op->settings().context == context) ops.push_back(op);
    }
    if (ops.empty()) continue;
    const std::vector<Op*> ordered = ContextProblem(*this, ops).solve();
    out.insert(out.end(), ordered.begin(), ordered.end());
  }
  return out;
}

}  // namespace popxl::ir
