#include "exec/executor.h"

#include <algorithm>
#include <cstring>

#include "base/element.h"
#include "exec/print_tensor.h"
#include "kernels/copy.h"

namespace popxl::exec {

using compile::Code;
using compile::Instruction;

Executor::Executor(const compile::Program& program) : program_(program) {
  size_t most = 0;
  const auto count = [&](const Code& code) {
    for (const Instruction& i : code.instructions) {
      if (const auto* k = std::get_if<compile::RunKernel>(&i.what)) most = std::max(most, k->operands.size());
    }
  };
  for (const Code& code : program.codes) count(code);
  count(program.preparation);
  operands_.resize(most);
}

void Executor::prepare(std::byte* frame, std::byte* variables) {
  variables_ = variables;
  for (const Instruction& i : program_.preparation.instructions) execute(i, frame, nullptr);
}

void Executor::run(std::byte* frame, std::byte* variables, const RemoteMemory& remote,
                   std::span<StreamCursor> streams, int64_t replica, int64_t replicas) {
  variables_ = variables;
  remote_ = &remote;
  streams_ = streams;
  replica_ = replica;
  replicas_ = replicas;
  if (recorder_ != nullptr) recorder_->beginRun(replica);
  runCode(program_.main(), frame, nullptr);
  if (recorder_ != nullptr) recorder_->endRun();
}

void Executor::runCode(const Code& code, std::byte* frame, std::byte* const* arguments) {
  if (recorder_ != nullptr) return runRecorded(code, frame, arguments);
  for (const Instruction& i : code.instructions) execute(i, frame, arguments);
}

void Executor::runRecorded(const Code& code, std::byte* frame, std::byte* const* arguments) {
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const Recorder::Mark mark = recorder_->start();
    execute(code.instructions[i], frame, arguments);
    recorder_->stop(code, i, mark);
  }
}

void Executor::execute(const Instruction& instruction, std::byte* frame, std::byte* const* arguments) {
  const auto& what = instruction.what;
  if (const auto* kernel = std::get_if<compile::RunKernel>(&what)) {
    runKernel(*kernel, frame, arguments);
  } else if (const auto* call = std::get_if<compile::RunCall>(&what)) {
    runCall(*call, frame, arguments);
  } else if (const auto* repeat = std::get_if<compile::RunRepeat>(&what)) {
    runRepeat(*repeat, *instruction.ops.front(), frame, arguments);
  } else if (const auto* conditional = std::get_if<compile::RunConditional>(&what)) {
    const bool taken = *pointer(conditional->condition, frame, arguments) != std::byte{0};
    runCall(taken ? conditional->then : conditional->otherwise, frame, arguments);
  } else if (const auto* load = std::get_if<compile::RunHostLoad>(&what)) {
    const std::byte* from = nextEntry(load->stream, *instruction.ops.front());
    kernels::copyBytes(from, pointer(load->to, frame, arguments), load->bytes, kernels::After::kRead);
  } else if (const auto* store = std::get_if<compile::RunHostStore>(&what)) {
    std::byte* to = nextEntry(store->stream, *instruction.ops.front());
    kernels::copyBytes(pointer(store->from, frame, arguments), to, store->bytes, kernels::After::kLeft);
  } else if (const auto* remote = std::get_if<compile::RunRemote>(&what)) {
    runRemote(*remote, *instruction.ops.front(), frame, arguments);
  } else {
    printTensor(*instruction.ops.front(), pointer(std::get<compile::RunPrint>(what).from, frame, arguments));
  }
}

void Executor::runKernel(const compile::RunKernel& k, std::byte* frame, std::byte* const* arguments) {
  const size_t n = k.operands.size();
  for (size_t i = 0; i < n; ++i) operands_[i] = pointer(k.operands[i], frame, arguments);
  k.kernel->run({operands_.data(), n});
}

void Executor::runCall(const compile::RunCall& call, std::byte* frame, std::byte* const* arguments) {
  auto** table = reinterpret_cast<std::byte**>(frame + call.table);
  for (size_t i = 0; i < call.arguments.size(); ++i) table[i] = pointer(call.arguments[i], frame, arguments);
  runCode(program_.codes[static_cast<size_t>(call.code)], frame + call.frame, table);
}

namespace {

int64_t integerAt(const std::byte* p, DType type) {
  const uint64_t value = loadElement(type, p).integer;
  if (!isSigned(type) && value > uint64_t{INT64_MAX}) return INT64_MAX;  // no buffer has such an entry
  return static_cast<int64_t>(value);
}

}  // namespace

/// Tells iteration k, on a slice, where its inputs and outputs lie.
void Executor::placeIteration(const compile::RunRepeat& repeat, int64_t k, int64_t slice, std::byte** table,
                              std::byte* frame, std::byte* const* arguments) const {
  const size_t inputs = repeat.inputs.size(), carried = repeat.carried.size();
  const bool writesFinal = (repeat.hasFixedCount() ? repeat.count - 1 - k : k) % 2 == 0;
  for (size_t i = 0; i < carried; ++i) {
    std::byte* final = pointer(repeat.carried[i].final, frame, arguments);
    std::byte* other = pointer(repeat.carried[i].other, frame, arguments);
    table[i] = k == 0 ? pointer(repeat.inputs[i], frame, arguments) : writesFinal ? other : final;
    table[inputs + i] = writesFinal ? final : other;
  }
  for (size_t i = carried; i < inputs; ++i) {
    table[i] = pointer(repeat.inputs[i], frame, arguments) + repeat.slices[i] * slice;
  }
  for (size_t i = 0; i < repeat.stacks.size(); ++i) {
    const auto& [first, bytes, needed] = repeat.stacks[i];
    table[inputs + carried + i] = pointer(first, frame, arguments) + (needed ? bytes * slice : 0);
  }
  for (const auto& fresh : repeat.fresh) {
    std::byte* to = pointer(fresh.to, frame, arguments);
    std::memcpy(to, table[fresh.input], static_cast<size_t>(fresh.bytes));
    table[fresh.input] = to;
  }
}

/// After a number of iterations that the program decided: carried values to where they end, zeros to the
/// slices of iterations that did not run.
void Executor::settleRepeat(const compile::RunRepeat& repeat, int64_t done, std::byte* frame,
                            std::byte* const* arguments) const {
  for (size_t i = 0; i < repeat.carried.size() && done % 2 == 0; ++i) {
    const auto& [final, other, bytes] = repeat.carried[i];
    const compile::Address& last = done == 0 ? repeat.inputs[i] : other;
    std::memcpy(pointer(final, frame, arguments), pointer(last, frame, arguments),
                static_cast<size_t>(bytes));
  }
  for (const auto& [first, bytes, needed] : repeat.stacks) {
    std::byte* memory = pointer(first, frame, arguments);
    if (!needed || memory == nullptr) continue;
    std::memset(memory + bytes * done, 0, static_cast<size_t>(bytes * (repeat.count - done)));
  }
}

void Executor::runRepeat(const compile::RunRepeat& repeat, const ir::Op& op, std::byte* frame,
                         std::byte* const* arguments) {
  auto** table = reinterpret_cast<std::byte**>(frame + repeat.table);
  int64_t count = repeat.count;
  if (repeat.trips.base != compile::Address::Base::kNone) {
    count = tripCount(op, integerAt(pointer(repeat.trips, frame, arguments), repeat.tripsType));
  }
  int64_t done = 0;
  for (; done < count; ++done) {
    placeIteration(repeat, done, repeat.reverse ? count - 1 - done : done, table, frame, arguments);
    if (repeat.whileTrue && *table[0] == std::byte{0}) break;
    runCode(program_.codes[static_cast<size_t>(repeat.code)], frame + repeat.frame, table);
  }
  if (!repeat.hasFixedCount()) settleRepeat(repeat, done, frame, arguments);
}

void Executor::runRemote(const compile::RunRemote& remote, const ir::Op& op, std::byte* frame,
                         std::byte* const* arguments) {
  const int64_t index = integerAt(pointer(remote.entry, frame, arguments), remote.entryType);
  std::byte* entry = remote_->entry(remote.buffer, index, op);
  std::byte* data = pointer(remote.data, frame, arguments);
  std::memcpy(remote.stores ? entry : data, remote.stores ? data : entry, static_cast<size_t>(remote.bytes));
}

std::byte* Executor::nextEntry(int32_t stream, const ir::Op& op) {
  const auto i = static_cast<size_t>(stream);
  return streams_[i].take(program_.streams[i], op, replica_, replicas_);
}

}  // namespace popxl::exec
