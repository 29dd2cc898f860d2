#include "algo/schedule.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"

namespace popxl::algo {
namespace {

constexpr int32_t kForever = 1 << 30;  // uses of a buffer that outlives all ops

/// The buffers that ops touch, each once an op, with what is left to do on them as ops are run one by one.
class Memory {
 public:
  explicit Memory(const ScheduleProblem& problem);

  std::span<const int32_t> touched(int32_t op) const { return touched_[op]; }
  std::span<const int32_t> written(int32_t op) const { return written_[op]; }
  std::span<const int32_t> writers(int32_t buffer) const { return writers_[buffer]; }
  int32_t numBuffers() const { return writers_.numRows(); }
  bool isLive(int32_t buffer) const { return live_[buffer]; }
  void setLive(int32_t buffer) { live_[buffer] = true; }
  /// The op is done with the buffer; returns the number of ops that are still to touch it.
  int32_t release(int32_t buffer, int32_t op) {
    users_[buffer] ^= op;
    return --uses_[buffer];
  }
  int32_t uses(int32_t buffer) const { return uses_[buffer]; }
  /// The one op that is still to touch the buffer: asked when uses() is 1.
  int32_t lastUser(int32_t buffer) const { return users_[buffer]; }

 private:
  void indexWriters(int32_t numBuffers);

  Ragged touched_;
  Ragged written_;
  Ragged writers_;
  std::vector<int32_t> uses_;
  std::vector<int32_t> users_;  // exclusive or of the ops that are still to touch the buffer
  std::vector<bool> live_;
};

Memory::Memory(const ScheduleProblem& problem) {
  const auto numBuffers = static_cast<int32_t>(problem.bytes.size());
  uses_.assign(numBuffers, 0);
  users_.assign(numBuffers, 0);
  live_.assign(numBuffers, true);
  touched_.reserve(problem.numOps(), problem.inputs.values().size() + problem.outputs.values().size());
  written_.reserve(problem.numOps(), problem.outputs.values().size());
  std::vector<int32_t> row;
  const auto addBuffers = [&](std::span<const int32_t> tensors, Ragged& rows) {
    for (int32_t tensor : tensors) {
      const int32_t buffer = problem.buffer(tensor);
      POPXL_ASSERT(buffer >= 0 && buffer < numBuffers, "tensor {} in buffer {} of {}", tensor, buffer,
                   numBuffers);
      if (problem.storage.empty() || problem.storage[buffer] != Storage::kExternal) row.push_back(buffer);
    }
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    rows.addRow(row);
  };
  for (int32_t op = 0; op < problem.numOps(); ++op) {
    row.clear();
    addBuffers(problem.outputs[op], written_);
    for (int32_t buffer : row) live_[buffer] = false;
    addBuffers(problem.inputs[op], touched_);
    for (int32_t buffer : row) {
      ++uses_[buffer];
      users_[buffer] ^= op;
    }
  }
  for (size_t buffer = 0; buffer < problem.storage.size(); ++buffer) {
    if (problem.storage[buffer] == Storage::kKept) uses_[buffer] += kForever;
  }
  indexWriters(numBuffers);
}

void Memory::indexWriters(int32_t numBuffers) {
  std::vector<int32_t> starts(numBuffers + 1, 0);
  for (int32_t buffer : written_.values()) ++starts[buffer + 1];
  for (int32_t buffer = 0; buffer < numBuffers; ++buffer) starts[buffer + 1] += starts[buffer];
  std::vector<int32_t> ops(written_.values().size());
  auto next = starts;
  for (int32_t op = 0; op < written_.numRows(); ++op) {
    for (int32_t buffer : written_[op]) ops[next[buffer]++] = op;
  }
  writers_ = Ragged(std::move(starts), std::move(ops));
}

/// Greedy choice among the ready ops. The cost of an op only ever falls, so that the queue may hold outdated
/// entries: the one with the true cost comes out first.
class Scheduler {
 public:
  Scheduler(const ScheduleProblem& problem, const Dag& dag);
  std::vector<int32_t> run();

 private:
  struct Cost {
    int64_t added = 0;    // bytes live after the op less bytes live before it
    int64_t written = 0;  // bytes that the op makes live
  };
  struct Entry {
    Cost cost;
    int32_t op;
    /// std::priority_queue gives the greatest first.
    bool operator<(const Entry& other) const {
      return std::tie(cost.added, cost.written, op) >
             std::tie(other.cost.added, other.cost.written, other.op);
    }
  };

  void enqueue(int32_t op) { ready_.push({costs_[op], op}); }
  void lower(int32_t op, Cost by);
  void finish(int32_t op);

  const ScheduleProblem& problem_;
  const Dag& dag_;
  Memory memory_;
  std::vector<Cost> costs_;
  std::vector<int32_t> waiting_;  // dependences that are not done; -1 when the op itself is
  std::priority_queue<Entry> ready_;
};

Scheduler::Scheduler(const ScheduleProblem& problem, const Dag& dag)
    : problem_(problem), dag_(dag), memory_(problem), costs_(problem.numOps()), waiting_(dag.inDegrees()) {
  for (int32_t op = 0; op < problem.numOps(); ++op) {
    Cost& cost = costs_[op];
    for (int32_t buffer : memory_.written(op)) {
      if (!memory_.isLive(buffer)) cost.written += problem.bytes[buffer];
    }
    cost.added = cost.written;
    for (int32_t buffer : memory_.touched(op)) {
      if (memory_.uses(buffer) == 1) cost.added -= problem.bytes[buffer];
    }
  }
}

void Scheduler::lower(int32_t op, Cost by) {
  if (waiting_[op] < 0 || by.added == 0) return;
  costs_[op].added -= by.added;
  costs_[op].written -= by.written;
  if (waiting_[op] == 0) enqueue(op);
}

void Scheduler::finish(int32_t op) {
  waiting_[op] = -1;
  for (int32_t buffer : memory_.written(op)) {
    if (memory_.isLive(buffer)) continue;
    memory_.setLive(buffer);
    const int64_t bytes = problem_.bytes[buffer];
    for (int32_t writer : memory_.writers(buffer)) lower(writer, {bytes, bytes});
  }
  for (int32_t buffer : memory_.touched(op)) {
    if (memory_.release(buffer, op) == 1) lower(memory_.lastUser(buffer), {problem_.bytes[buffer], 0});
  }
  for (int32_t successor : dag_.successors(op)) {
    if (--waiting_[successor] == 0) enqueue(successor);
  }
}

std::vector<int32_t> Scheduler::run() {
  std::vector<int32_t> order;
  order.reserve(problem_.numOps());
  for (int32_t op = 0; op < problem_.numOps(); ++op) {
    if (waiting_[op] == 0) enqueue(op);
  }
  while (!ready_.empty()) {
    const int32_t op = ready_.top().op;
    ready_.pop();
    if (waiting_[op] < 0) continue;
    order.push_back(op);
    finish(op);
  }
  return order;
}

}  // namespace

Dag dependences(const ScheduleProblem& problem) {
  POPXL_ASSERT(problem.inputs.numRows() == problem.outputs.numRows(), "inputs of {} ops, outputs of {}",
               problem.inputs.numRows(), problem.outputs.numRows());
  const size_t numTensors = problem.bufferOf.empty() ? problem.bytes.size() : problem.bufferOf.size();
  std::vector<int32_t> producers(numTensors, -1);
  for (int32_t op = 0; op < problem.numOps(); ++op) {
    for (int32_t tensor : problem.outputs[op]) {
      POPXL_ASSERT(producers[tensor] < 0, "tensor {} is an output of ops {} and {}", tensor,
                   producers[tensor], op);
      producers[tensor] = op;
    }
  }
  auto edges = problem.constraints;
  edges.reserve(edges.size() + problem.inputs.values().size());
  for (int32_t op = 0; op < problem.numOps(); ++op) {
    for (int32_t tensor : problem.inputs[op]) {
      if (producers[tensor] >= 0) edges.push_back({producers[tensor], op});
    }
  }
  return Dag(problem.numOps(), edges);
}

std::vector<int32_t> scheduleForLiveness(const ScheduleProblem& problem) {
  const Dag dag = dependences(problem);
  return Scheduler(problem, dag).run();
}

int64_t peakLiveBytes(const ScheduleProblem& problem, std::span<const int32_t> order) {
  Memory memory(problem);
  int64_t live = 0;
  for (int32_t buffer = 0; buffer < memory.numBuffers(); ++buffer) {
    if (memory.isLive(buffer) && memory.uses(buffer) % kForever > 0) live += problem.bytes[buffer];
  }
  int64_t peak = live;
  for (int32_t op : order) {
    for (int32_t buffer : memory.written(op)) {
      if (memory.isLive(buffer)) continue;
      memory.setLive(buffer);
      live += problem.bytes[buffer];
    }
    peak = std::max(peak, live);
    for (int32_t buffer : memory.touched(op)) {
      if (memory.release(buffer, op) == 0) live -= problem.bytes[buffer];
    }
  }
  return peak;
}

}  // namespace popxl::algo
