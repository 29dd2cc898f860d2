#include <algorithm>

#include "algo/offsets.h"
#include "base/error.h"
#include "compile/lowering.h"

namespace popxl::compile {

Address GraphLowering::addressOf(const Ref& ref, const std::vector<int64_t>& offsets) const {
  if (ref.buffer < 0) return {};
  const int32_t buffer = resolve(ref.buffer);
  const Buffer& b = storages_.buffers()[static_cast<size_t>(buffer)];
  switch (b.kind) {
    case Buffer::Kind::kLocal:
      return {Address::Base::kFrame, 0, offsets[static_cast<size_t>(buffer)] + ref.offset, nullptr};
    case Buffer::Kind::kVariable:
      return {Address::Base::kVariable, 0, context_.variableOffsets.at(b.root) + ref.offset, nullptr};
    case Buffer::Kind::kPrepared:
      return {Address::Base::kVariable, 0, b.offset + ref.offset, nullptr};
    case Buffer::Kind::kConstant:
      return {Address::Base::kConstant, 0, ref.offset, b.root->data()->bytes};
    case Buffer::Kind::kArgumentIn:
    case Buffer::Kind::kArgumentOut:
      return {Address::Base::kArgument, b.argument, ref.offset, nullptr};
  }
  return {};
}

/// Buffers live from the first to the last instruction that touches them.
std::vector<GraphLowering::Lifetime> GraphLowering::lifetimes() const {
  std::vector<Lifetime> lives(storages_.buffers().size());
  for (size_t i = 0; i < drafts_.size(); ++i) {
    for (const Ref& ref : drafts_[i].refs) {
      if (ref.buffer < 0) continue;
      Lifetime& life = lives[static_cast<size_t>(resolve(ref.buffer))];
      life.first = std::min(life.first, static_cast<int32_t>(i));
      life.last = static_cast<int32_t>(i);
    }
  }
  for (size_t b = 0; b < lives.size(); ++b) {
    if (storages_.buffers()[b].kind != Buffer::Kind::kLocal) lives[b] = {};
  }
  return lives;
}

/// What the frame holds while an instruction runs.
void GraphLowering::notePeak(const std::vector<Lifetime>& lives, int32_t instruction, Code& code) const {
  if (drafts_.empty()) return;
  const auto opOf = [&](int32_t i) {
    const auto& ops = drafts_[static_cast<size_t>(i)].instruction.ops;
    return ops.empty() ? nullptr : ops.front();
  };
  code.peakOp = opOf(instruction);
  std::vector<int32_t> holders(lives.size(), -1);  // what took the memory of a buffer over by then
  for (int32_t i = 0; i <= instruction; ++i) {
    for (const Ref& ref : drafts_[static_cast<size_t>(i)].refs) {
      if (ref.buffer >= 0 && mergedInto_[static_cast<size_t>(ref.buffer)] >= 0)
        holders[static_cast<size_t>(resolve(ref.buffer))] = ref.buffer;
    }
  }
  for (size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].first > instruction || lives[b].last < instruction) continue;
    const size_t holder = holders[b] < 0 ? b : static_cast<size_t>(holders[b]);
    const Buffer& buffer = storages_.buffers()[holder];
    const ir::Op* maker = buffer.root == nullptr ? opOf(instruction) : buffer.root->producer();
    code.atPeak.push_back({buffer.bytes, buffer.root, maker, buffer.frameOf});
  }
}

void GraphLowering::planMemory(Code& code) {
  const std::vector<Buffer>& all = storages_.buffers();
  const std::vector<Lifetime> lives = lifetimes();
  std::vector<algo::Interval> intervals;
  std::vector<size_t> buffers;
  bool calls = false;
  for (size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].last < 0) continue;
    intervals.push_back({all[b].bytes, lives[b].first, lives[b].last});
    buffers.push_back(b);
    calls = calls || all[b].frameOf >= 0;
  }
  const algo::OffsetPlan plan = algo::planOffsets(intervals);
  std::vector<int64_t> offsets(lives.size(), 0);
  for (size_t i = 0; i < buffers.size(); ++i) offsets[buffers[i]] = plan.offsets[i];
  code.frameBytes = plan.peak;
  algo::LivePeak live = plan.live;
  if (calls) {  // of a callee's frame only what it uses at once counts
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (const int32_t callee = all[buffers[i]].frameOf; callee >= 0)
        intervals[i].size = context_.codes[static_cast<size_t>(callee)].liveLowerBound;
    }
    live = algo::livePeak(intervals);
  }
  code.liveLowerBound = live.bytes;
  notePeak(lives, live.step, code);
  for (Draft& draft : drafts_) {
    patch(draft, offsets);
    code.instructions.push_back(std::move(draft.instruction));
  }
}

/// Writes the planned addresses into an instruction, in the order in which its references were listed.
void GraphLowering::patch(Draft& draft, const std::vector<int64_t>& offsets) {
  size_t next = 0;
  const auto take = [&] { return addressOf(draft.refs[next++], offsets); };
  const auto takeAll = [&](std::vector<Address>& to) {
    for (Address& a : to) a = take();
  };
  const auto takeCall = [&](RunCall& call) {
    takeAll(call.arguments);
    call.frame = take().offset;
    call.table = take().offset;
  };
  auto& what = draft.instruction.what;
  if (auto* kernel = std::get_if<RunKernel>(&what)) {
    kernel->operands.resize(draft.refs.size());
    takeAll(kernel->operands);
  } else if (auto* call = std::get_if<RunCall>(&what)) {
    takeCall(*call);
  } else if (auto* repeat = std::get_if<RunRepeat>(&what)) {
    repeat->trips = take();
    takeAll(repeat->inputs);
    for (RunRepeat::Carried& c : repeat->carried) {
      c.final = take();
      c.other = take();
    }
    for (RunRepeat::Stack& stack : repeat->stacks) stack.first = take();
    for (RunRepeat::Fresh& f : repeat->fresh) f.to = take();
    repeat->frame = take().offset;
    repeat->table = take().offset;
  } else if (auto* conditional = std::get_if<RunConditional>(&what)) {
    conditional->condition = take();
    takeCall(conditional->then);
    takeCall(conditional->otherwise);
  } else if (auto* load = std::get_if<RunHostLoad>(&what)) {
    load->to = take();
  } else if (auto* store = std::get_if<RunHostStore>(&what)) {
    store->from = take();
  } else if (auto* remote = std::get_if<RunRemote>(&what)) {
    remote->entry = take();
    remote->data = take();
  } else {
    std::get<RunPrint>(what).from = take();
  }
  POPXL_ASSERT(next == draft.refs.size(), "{} of {} references used", next, draft.refs.size());
}

}  // namespace popxl::compile
