#include "exec/executor.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "kernels/parallel.h"

namespace popxl::exec {

using compile::Code;
using compile::Instruction;

Executor::Executor(const compile::Program& program, Exchange& exchange)
    : program_(program), exchange_(exchange) {
  exchange_.prepare(program);
  for (const Code& code : program.codes) {
    prints_ =
        prints_ || std::any_of(code.instructions.begin(), code.instructions.end(), [](const Instruction& i) {
          return std::holds_alternative<compile::RunPrint>(i.what);
        });
  }
}

void Executor::setRecorder(Recorder* recorder) {
  recorder_ = recorder;
  for (Worker& worker : workers_) worker.setRecorder(recorder);
}

void Executor::begin(const Memory& memory) {
  memory_ = memory;
  while (workers_.size() < memory.frames.size()) workers_.emplace_back(program_);
  for (Worker& worker : workers_) worker.setRecorder(recorder_);
  from_.resize(memory.lanes.size());
  to_.resize(memory.lanes.size());
  values_.resize(memory.lanes.size());
}

void Executor::prepare(const Memory& memory) {
  begin(memory);
  const Code& shared = program_.sharedPreparation;
  Recorder* recorder = recorder_;  // knows the instructions of runs alone
  setRecorder(nullptr);
  if (!shared.instructions.empty()) {
    workers_.front().run(shared, 0, shared.instructions.size(), frameOf(memory_.lanes.front(), {}));
  }
  runInStep(program_.preparation, {});
  setRecorder(recorder);
}

void Executor::run(const Memory& memory) {
  begin(memory);
  if (recorder_ != nullptr) recorder_->beginRun();
  runInStep(program_.main(), {});
  if (recorder_ != nullptr) recorder_->endRun();
}

Frame Executor::frameOf(const Lane& lane, const InStep& step) const {
  Frame frame;
  frame.work = memory_.frames.front();
  frame.own = lane.frame + step.frame;
  frame.arguments = step.table < 0 ? nullptr : tableOf(lane, step);
  frame.variables = lane.variables;
  frame.shared = memory_.shared;
  return frame;
}

std::byte** Executor::tableOf(const Lane& lane, const InStep& step) const {
  return reinterpret_cast<std::byte**>(lane.frame + step.table);
}

void Executor::runInStep(const Code& code, const InStep& step) {
  size_t begin = 0;
  for (const int32_t cut : code.cuts) {
    const auto at = static_cast<size_t>(cut);
    runSegment(code, begin, at, step);
    if (recorder_ == nullptr) {
      runCut(code.instructions[at], step);
    } else {
      const Recorder::Mark mark = recorder_->start(0);
      runCut(code.instructions[at], step);
      recorder_->stop(code, at, mark);
    }
    begin = at + 1;
  }
  runSegment(code, begin, code.instructions.size(), step);
}

/// Instructions between two cuts, for all replicas. Of several that fail the first one's error is thrown.
void Executor::runSegment(const Code& code, size_t begin, size_t end, const InStep& step) {
  if (begin == end) return;
  const size_t lanes = memory_.lanes.size();
  const auto runOne = [&](size_t worker, size_t lane) {
    Frame frame = frameOf(memory_.lanes[lane], step);
    frame.work = memory_.frames[worker];
    workers_[worker].enter(memory_.lanes[lane], static_cast<int64_t>(lane), static_cast<int64_t>(lanes));
    workers_[worker].run(code, begin, end, frame);
  };
  // Prints come in the order of the replicas, and times are those of one replica at a time.
  const size_t workers = prints_ || recorder_ != nullptr ? 1 : std::min(lanes, memory_.frames.size());
  if (workers == 1) {
    for (size_t lane = 0; lane < lanes; ++lane) runOne(0, lane);
    return;
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t failedLane = lanes;
  std::exception_ptr error;
  kernels::parallelFor(static_cast<int64_t>(workers), [&](int64_t worker) {
    size_t lane = 0;
    try {
      while ((lane = next.fetch_add(1, std::memory_order_relaxed)) < lanes)
        runOne(static_cast<size_t>(worker), lane);
    } catch (...) {  // every replica before it has been taken by someone, who will finish it
      const std::lock_guard<std::mutex> lock(mutex);
      next.store(lanes, std::memory_order_relaxed);
      if (lane < failedLane) {
        failedLane = lane;
        error = std::current_exception();
      }
    }
  });
  if (error != nullptr) std::rethrow_exception(error);
}

void Executor::runCut(const Instruction& instruction, const InStep& step) {
  if (const auto* collective = std::get_if<compile::RunCollective>(&instruction.what)) {
    runCollective(*collective, *instruction.ops.front(), step);
  } else if (const auto* call = std::get_if<compile::RunCall>(&instruction.what)) {
    callInStep(*call, step);
  } else if (const auto* repeat = std::get_if<compile::RunRepeat>(&instruction.what)) {
    repeatInStep(*repeat, *instruction.ops.front(), step);
  } else {
    const auto& conditional = std::get<compile::RunConditional>(instruction.what);
    const int64_t taken = agreedValue(*instruction.ops.front(), step, [&](const Frame& frame) {
      return int64_t{*frame.at(conditional.condition) != std::byte{0}};
    });
    callInStep(taken != 0 ? conditional.then : conditional.otherwise, step);
  }
}

void Executor::runCollective(const compile::RunCollective& collective, const ir::Op& op, const InStep& step) {
  for (size_t r = 0; r < memory_.lanes.size(); ++r) {
    const Frame frame = frameOf(memory_.lanes[r], step);
    from_[r] = frame.at(collective.from);
    to_[r] = frame.at(collective.to);
  }
  exchange_.run(collective, op, from_, to_, memory_.exchange);
}

void Executor::callInStep(const compile::RunCall& call, const InStep& step) {
  const InStep callee{step.frame + call.frame, step.frame + call.table};
  for (const Lane& lane : memory_.lanes) passArguments(call, frameOf(lane, step), tableOf(lane, callee));
  runInStep(program_.codes[static_cast<size_t>(call.code)], callee);
}

void Executor::repeatInStep(const compile::RunRepeat& repeat, const ir::Op& op, const InStep& step) {
  const InStep body{step.frame + repeat.frame, step.frame + repeat.table};
  const bool known = repeat.trips.base == compile::Address::Base::kNone;
  const int64_t count =
      known ? repeat.count
            : agreedValue(op, step, [&](const Frame& frame) { return iterationsOf(repeat, op, frame); });
  int64_t done = 0;
  for (; done < count; ++done) {
    const int64_t slice = repeat.reverse ? count - 1 - done : done;
    for (const Lane& lane : memory_.lanes)
      placeIteration(repeat, done, slice, frameOf(lane, step), tableOf(lane, body));
    const auto goesOn = [](const Frame& frame) { return int64_t{*frame.arguments[0] != std::byte{0}}; };
    if (repeat.whileTrue && agreedValue(op, body, goesOn) == 0) break;
    runInStep(program_.codes[static_cast<size_t>(repeat.code)], body);
  }
  if (repeat.hasFixedCount()) return;
  for (const Lane& lane : memory_.lanes) settleRepeat(repeat, done, frameOf(lane, step));
}

/// What `value` gives for the frame of every replica. Error(kValue) where they differ.
template <typename Value>
int64_t Executor::agreedValue(const ir::Op& op, const InStep& step, const Value& value) {
  for (size_t r = 0; r < memory_.lanes.size(); ++r) values_[r] = value(frameOf(memory_.lanes[r], step));
  return exchange_.agree(op, values_);
}

}  // namespace popxl::exec
