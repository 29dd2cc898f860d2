#include "exec/worker.h"

#include <algorithm>
#include <cstring>

#include "base/element.h"
#include "exec/print_tensor.h"
#include "kernels/copy.h"

namespace popxl::exec {

using compile::Code;
using compile::Instruction;

Worker::Worker(const compile::Program& program) : program_(program) {
  size_t most = 0;
  const auto count = [&](const Code& code) {
    for (const Instruction& i : code.instructions) {
      if (const auto* k = std::get_if<compile::RunKernel>(&i.what)) most = std::max(most, k->operands.size());
    }
  };
  for (const Code& code : program.codes) count(code);
  count(program.preparation);
  count(program.sharedPreparation);
  operands_.resize(most);
}

void Worker::enter(Lane& lane, int64_t replica, int64_t replicas) {
  lane_ = &lane;
  replica_ = replica;
  replicas_ = replicas;
}

void Worker::run(const Code& code, size_t begin, size_t end, const Frame& frame) {
  if (recorder_ == nullptr) {
    for (size_t i = begin; i < end; ++i) execute(code.instructions[i], frame);
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    const Recorder::Mark mark = recorder_->start(replica_);
    execute(code.instructions[i], frame);
    recorder_->stop(code, i, mark);
  }
}

void Worker::execute(const Instruction& instruction, const Frame& frame) {
  const auto& what = instruction.what;
  if (const auto* kernel = std::get_if<compile::RunKernel>(&what)) {
    runKernel(*kernel, frame);
  } else if (const auto* call = std::get_if<compile::RunCall>(&what)) {
    runCall(*call, frame);
  } else if (const auto* repeat = std::get_if<compile::RunRepeat>(&what)) {
    runRepeat(*repeat, *instruction.ops.front(), frame);
  } else if (const auto* conditional = std::get_if<compile::RunConditional>(&what)) {
    const bool taken = *frame.at(conditional->condition) != std::byte{0};
    runCall(taken ? conditional->then : conditional->otherwise, frame);
  } else if (const auto* load = std::get_if<compile::RunHostLoad>(&what)) {
    const std::byte* from = nextEntry(load->stream, *instruction.ops.front());
    kernels::copyBytes(from, frame.at(load->to), load->bytes, kernels::After::kRead);
  } else if (const auto* store = std::get_if<compile::RunHostStore>(&what)) {
    std::byte* to = nextEntry(store->stream, *instruction.ops.front());
    kernels::copyBytes(frame.at(store->from), to, store->bytes, kernels::After::kLeft);
  } else if (const auto* remote = std::get_if<compile::RunRemote>(&what)) {
    runRemote(*remote, *instruction.ops.front(), frame);
  } else {
    printTensor(*instruction.ops.front(), frame.at(std::get<compile::RunPrint>(what).from));
  }
}

void Worker::runKernel(const compile::RunKernel& k, const Frame& frame) {
  const size_t n = k.operands.size();
  for (size_t i = 0; i < n; ++i) operands_[i] = frame.at(k.operands[i]);
  k.kernel->run({operands_.data(), n});
}

void Worker::runCallee(int32_t code, int64_t offset, std::byte* const* arguments, const Frame& frame) {
  const Code& callee = program_.codes[static_cast<size_t>(code)];
  Frame inner = frame;
  inner.work = frame.work + offset;
  inner.arguments = arguments;
  run(callee, 0, callee.instructions.size(), inner);
}

void passArguments(const compile::RunCall& call, const Frame& frame, std::byte** table) {
  for (size_t i = 0; i < call.arguments.size(); ++i) table[i] = frame.at(call.arguments[i]);
}

void Worker::runCall(const compile::RunCall& call, const Frame& frame) {
  auto** table = reinterpret_cast<std::byte**>(frame.work + call.table);
  passArguments(call, frame, table);
  runCallee(call.code, call.frame, table, frame);
}

namespace {

int64_t integerAt(const std::byte* p, DType type) {
  const uint64_t value = loadElement(type, p).integer;
  if (!isSigned(type) && value > uint64_t{INT64_MAX}) return INT64_MAX;  // no buffer has such an entry
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t iterationsOf(const compile::RunRepeat& repeat, const ir::Op& op, const Frame& frame) {
  if (repeat.trips.base == compile::Address::Base::kNone) return repeat.count;
  return tripCount(op, integerAt(frame.at(repeat.trips), repeat.tripsType));
}

void placeIteration(const compile::RunRepeat& repeat, int64_t k, int64_t slice, const Frame& frame,
                    std::byte** table) {
  const size_t inputs = repeat.inputs.size(), carried = repeat.carried.size();
  const bool writesFinal = (repeat.hasFixedCount() ? repeat.count - 1 - k : k) % 2 == 0;
  for (size_t i = 0; i < carried; ++i) {
    std::byte* final = frame.at(repeat.carried[i].final);
    std::byte* other = frame.at(repeat.carried[i].other);
    table[i] = k == 0 ? frame.at(repeat.inputs[i]) : writesFinal ? other : final;
    table[inputs + i] = writesFinal ? final : other;
  }
  for (size_t i = carried; i < inputs; ++i) table[i] = frame.at(repeat.inputs[i]) + repeat.slices[i] * slice;
  for (size_t i = 0; i < repeat.stacks.size(); ++i) {
    const auto& [first, bytes, needed] = repeat.stacks[i];
    table[inputs + carried + i] = frame.at(first) + (needed ? bytes * slice : 0);
  }
  for (const auto& fresh : repeat.fresh) {
    std::byte* to = frame.at(fresh.to);
    kernels::copyBytes(table[fresh.input], to, fresh.bytes, kernels::After::kRead);
    table[fresh.input] = to;
  }
}

void settleRepeat(const compile::RunRepeat& repeat, int64_t done, const Frame& frame) {
  for (size_t i = 0; i < repeat.carried.size() && done % 2 == 0; ++i) {
    const auto& [final, other, bytes] = repeat.carried[i];
    const compile::Address& last = done == 0 ? repeat.inputs[i] : other;
    kernels::copyBytes(frame.at(last), frame.at(final), bytes, kernels::After::kRead);
  }
  for (const auto& [first, bytes, needed] : repeat.stacks) {
    std::byte* memory = frame.at(first);
    if (!needed || memory == nullptr) continue;
    std::memset(memory + bytes * done, 0, static_cast<size_t>(bytes * (repeat.count - done)));
  }
}

void Worker::runRepeat(const compile::RunRepeat& repeat, const ir::Op& op, const Frame& frame) {
  auto** table = reinterpret_cast<std::byte**>(frame.work + repeat.table);
  const int64_t count = iterationsOf(repeat, op, frame);
  int64_t done = 0;
  for (; done < count; ++done) {
    placeIteration(repeat, done, repeat.reverse ? count - 1 - done : done, frame, table);
    if (repeat.whileTrue && *table[0] == std::byte{0}) break;
    runCallee(repeat.code, repeat.frame, table, frame);
  }
  if (!repeat.hasFixedCount()) settleRepeat(repeat, done, frame);
}

void Worker::runRemote(const compile::RunRemote& remote, const ir::Op& op, const Frame& frame) {
  const int64_t index = integerAt(frame.at(remote.entry), remote.entryType);
  std::byte* const data = frame.at(remote.data);
  if (remote.stores) {
    lane_->remote->store(op, replica_, remote.buffer, index, data, remote.bytes);
  } else {
    lane_->remote->load(op, replica_, remote.buffer, index, data, remote.bytes);
  }
}

std::byte* Worker::nextEntry(int32_t stream, const ir::Op& op) {
  const auto i = static_cast<size_t>(stream);
  return lane_->streams[i].take(program_.streams[i], op, replica_, replicas_);
}

}  // namespace popxl::exec
