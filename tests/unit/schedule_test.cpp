#include "algo/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

namespace popxl::algo {
namespace {

using Ids = std::vector<int32_t>;

/// Builds a problem op by op.
struct Builder {
  ScheduleProblem problem;

  int32_t tensor(int64_t bytes, Storage storage = Storage::kTemporary) {
    problem.bytes.push_back(bytes);
    problem.storage.push_back(storage);
    return static_cast<int32_t>(problem.bytes.size()) - 1;
  }
  int32_t op(const Ids& inputs, const Ids& outputs) {
    problem.inputs.addRow(inputs);
    problem.outputs.addRow(outputs);
    return problem.numOps() - 1;
  }
};

TEST(Schedule, SmallOutputsComeFirst) {
  Builder b;
  const int32_t small = b.tensor(4, Storage::kExternal);
  const int32_t big = b.tensor(16, Storage::kExternal);
  const int32_t add = b.op({big}, {b.tensor(16)});
  const int32_t mul = b.op({small}, {b.tensor(4)});
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{mul, add}));
  b.problem.constraints = {{add, mul}};
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{add, mul}));
}

TEST(Schedule, SmallOutputsComeFirstAmongResults) {
  Builder b;
  const int32_t large = b.op({}, {b.tensor(16, Storage::kKept)});
  const int32_t little = b.op({}, {b.tensor(4, Storage::kKept)});
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{little, large}));
}

TEST(Schedule, AnUnorderedBlockInsideAnOrderedOne) {
  Builder b;
  const int32_t small = b.tensor(4, Storage::kExternal);
  const int32_t big = b.tensor(16, Storage::kExternal);
  const int32_t sub = b.op({big}, {b.tensor(16)});
  const int32_t add = b.op({big}, {b.tensor(16)});
  const int32_t mul = b.op({small}, {b.tensor(4)});
  const int32_t div = b.op({small}, {b.tensor(4)});
  b.problem.constraints = {{sub, add}, {sub, mul}, {add, div}, {mul, div}};
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{sub, mul, add, div}));
}

TEST(Schedule, TiesGoToTheLowestId) {
  Builder b;
  for (int i = 0; i < 20; ++i) b.op({}, {b.tensor(8)});
  const auto order = scheduleForLiveness(b.problem);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Schedule, ConsumesBeforeItProducesMore) {
  Builder b;
  const int32_t x = b.tensor(100), y = b.tensor(100);
  const int32_t makeX = b.op({}, {x});
  const int32_t makeY = b.op({}, {y});
  const int32_t sumX = b.op({x}, {b.tensor(4, Storage::kKept)});
  const int32_t sumY = b.op({y}, {b.tensor(4, Storage::kKept)});
  const auto order = scheduleForLiveness(b.problem);
  EXPECT_EQ(order, (Ids{makeX, sumX, makeY, sumY}));
  EXPECT_EQ(peakLiveBytes(b.problem, order), 108);
  EXPECT_EQ(peakLiveBytes(b.problem, Ids{makeX, makeY, sumX, sumY}), 204);
}

TEST(Schedule, TheLastUserOfALargeBufferBecomesCheap) {
  Builder b;
  const int32_t x = b.tensor(100);  // live from the start
  const int32_t other = b.op({}, {b.tensor(10, Storage::kKept)});
  const int32_t first = b.op({x}, {b.tensor(5, Storage::kKept)});
  const int32_t last = b.op({x}, {b.tensor(50, Storage::kKept)});
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{first, last, other}));
}

TEST(Schedule, AViewCostsNothingAndKeepsItsBufferLive) {
  Builder b;
  const int32_t x = b.tensor(100), view = 1, sum = 2;
  b.tensor(4, Storage::kKept);
  b.problem.bufferOf = {0, 0, 1};
  b.op({}, {x});
  b.op({x}, {view});
  b.op({view}, {sum});
  EXPECT_EQ(scheduleForLiveness(b.problem), (Ids{0, 1, 2}));
  EXPECT_EQ(peakLiveBytes(b.problem, Ids{0, 1, 2}), 104);
}

TEST(Schedule, ACycleLeavesOpsOut) {
  Builder b;
  const int32_t x = b.tensor(4), y = b.tensor(4);
  b.op({}, {});
  b.op({y}, {x});
  b.op({x}, {y});
  EXPECT_EQ(scheduleForLiveness(b.problem), Ids{0});
  EXPECT_EQ(findCycle(dependences(b.problem)), (Ids{1, 2}));
}

TEST(Schedule, RefusesATensorWithTwoProducers) {
  Builder b;
  const int32_t x = b.tensor(4);
  b.op({}, {x});
  b.op({}, {x});
  EXPECT_ANY_THROW(scheduleForLiveness(b.problem));
}

/// Random ops over few buffers, some of which several tensors share.
ScheduleProblem randomProblem(std::mt19937& random) {
  ScheduleProblem problem;
  const auto numOps = static_cast<int32_t>(1 + random() % 10);
  const auto pick = [&](size_t count) { return static_cast<int32_t>(random() % count); };
  const auto addTensor = [&](bool mayShare) {
    if (!mayShare || random() % 4 != 0 || problem.bytes.empty()) {
      problem.bytes.push_back(pick(6) * 8);
      problem.storage.push_back(static_cast<Storage>(random() % 8 < 6 ? 0 : random() % 3));
      problem.bufferOf.push_back(static_cast<int32_t>(problem.bytes.size()) - 1);
    } else {
      problem.bufferOf.push_back(pick(problem.bytes.size()));
    }
    return static_cast<int32_t>(problem.bufferOf.size()) - 1;
  };
  addTensor(false);
  addTensor(false);
  for (int32_t op = 0; op < numOps; ++op) {
    Ids inputs, outputs;
    for (int32_t n = pick(4); n > 0; --n) inputs.push_back(pick(problem.bufferOf.size()));
    for (int32_t n = pick(3); n > 0; --n) outputs.push_back(addTensor(true));
    problem.inputs.addRow(inputs);
    problem.outputs.addRow(outputs);
    if (op > 0 && random() % 3 == 0) problem.constraints.push_back({pick(op), op});
  }
  return problem;
}

struct State {
  const ScheduleProblem& problem;
  std::set<int32_t> done;

  bool touches(int32_t op, int32_t buffer, bool asOutput) const {
    const auto tensors = asOutput ? problem.outputs[op] : problem.inputs[op];
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](int32_t t) { return problem.buffer(t) == buffer; });
  }
  /// Straight from the definition of Storage: does the buffer hold memory once the ops of `done` have run?
  bool live(int32_t buffer) const {
    if (problem.storage[buffer] == Storage::kExternal) return false;
    bool hasWriter = false, written = false, touched = false, pending = false;
    for (int32_t op = 0; op < problem.numOps(); ++op) {
      const bool writes = touches(op, buffer, true);
      hasWriter |= writes;
      written |= writes && done.contains(op);
      touched |= writes || touches(op, buffer, false);
      pending |= (writes || touches(op, buffer, false)) && !done.contains(op);
    }
    return touched && (written || !hasWriter) && (pending || problem.storage[buffer] == Storage::kKept);
  }
  int64_t liveBytes() const {
    int64_t sum = 0;
    for (size_t buffer = 0; buffer < problem.bytes.size(); ++buffer) {
      if (live(static_cast<int32_t>(buffer))) sum += problem.bytes[buffer];
    }
    return sum;
  }
  /// Bytes that `op` makes live while it runs.
  int64_t written(int32_t op) const {
    int64_t sum = 0;
    for (size_t i = 0; i < problem.bytes.size(); ++i) {
      const auto buffer = static_cast<int32_t>(i);
      bool before = problem.storage[i] == Storage::kExternal || !touches(op, buffer, true);
      for (int32_t other : done) before |= touches(other, buffer, true);
      if (!before) sum += problem.bytes[i];
    }
    return sum;
  }
  bool ready(int32_t op) const {
    const auto blocked = [&](int32_t tensor) {
      for (int32_t other = 0; other < problem.numOps(); ++other) {
        const auto outputs = problem.outputs[other];
        if (!done.contains(other) && std::find(outputs.begin(), outputs.end(), tensor) != outputs.end())
          return true;
      }
      return false;
    };
    const auto inputs = problem.inputs[op];
    if (std::any_of(inputs.begin(), inputs.end(), blocked)) return false;
    return std::none_of(problem.constraints.begin(), problem.constraints.end(),
                        [&](const Edge& edge) { return edge.after == op && !done.contains(edge.before); });
  }
};

TEST(Schedule, TakesTheCheapestReadyOpOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto problem = randomProblem(random);
    const auto order = scheduleForLiveness(problem);
    ASSERT_EQ(order.size(), static_cast<size_t>(problem.numOps()));
    State state{problem, {}};
    int64_t peak = state.liveBytes();
    for (int32_t chosen : order) {
      ASSERT_TRUE(state.ready(chosen));
      const int64_t before = state.liveBytes();
      const auto cost = [&](int32_t op) {
        State after = state;
        after.done.insert(op);
        return std::tuple(after.liveBytes() - before, state.written(op), op);
      };
      for (int32_t op = 0; op < problem.numOps(); ++op) {
        if (state.done.contains(op) || !state.ready(op)) continue;
        ASSERT_LE(cost(chosen), cost(op)) << "op " << chosen << " was taken before op " << op;
      }
      peak = std::max(peak, before + state.written(chosen));
      state.done.insert(chosen);
    }
    ASSERT_EQ(peakLiveBytes(problem, order), peak);
  }
}

TEST(Schedule, OfAMillionOps) {
  constexpr int32_t kOps = 1'000'000;
  std::mt19937 random(11);
  Builder b;
  const int32_t shared = b.tensor(64);  // live from the start and read by every third op
  Ids recent(16, shared);
  for (int32_t op = 0; op < kOps; ++op) {
    const int32_t output = b.tensor(64 * static_cast<int64_t>(1 + random() % 64));
    b.op({recent[random() % 16], op % 3 == 0 ? shared : recent[random() % 16]}, {output});
    recent[random() % 16] = output;
  }
  const auto positions = positionsOf(scheduleForLiveness(b.problem));
  ASSERT_EQ(positions.size(), static_cast<size_t>(kOps));
  const Dag dag = dependences(b.problem);
  for (int32_t op = 0; op < kOps; ++op) {
    for (int32_t after : dag.successors(op)) ASSERT_LT(positions[op], positions[after]);
  }
}

}  // namespace
}  // namespace popxl::algo
