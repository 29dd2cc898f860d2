#include <algorithm>

#include "algo/offsets.h"
#include "base/error.h"
#include "compile/lowering.h"
#include "compile/stored_plan.h"

namespace popxl::compile {

Address GraphLowering::addressOf(const Ref& ref, const std::vector<Address>& places) const {
  if (ref.buffer < 0) return {};
  const int32_t buffer = resolve(ref.buffer);
  const Buffer& b = storages_.buffers()[static_cast<size_t>(buffer)];
  switch (b.kind) {
    case Buffer::Kind::kLocal: {
      Address place = places[static_cast<size_t>(buffer)];
      place.offset += ref.offset;
      return place;
    }
    case Buffer::Kind::kVariable: {
      const VariablePlace& place = context_.program.variablePlaces.at(b.root);
      return {place.shared ? Address::Base::kShared : Address::Base::kVariable, 0, place.offset + ref.offset,
              nullptr};
    }
    case Buffer::Kind::kPrepared:
      return {Address::Base::kVariable, 0, b.offset + ref.offset, nullptr};
    case Buffer::Kind::kPreparedShared:
      return {Address::Base::kShared, 0, b.offset + ref.offset, nullptr};
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

/// The codes that an instruction runs.
static std::vector<int32_t> codesRunBy(const Instruction& instruction) {
  if (const auto* call = std::get_if<RunCall>(&instruction.what)) return {call->code};
  if (const auto* repeat = std::get_if<RunRepeat>(&instruction.what)) return {repeat->code};
  if (const auto* c = std::get_if<RunConditional>(&instruction.what))
    return {c->then.code, c->otherwise.code};
  return {};
}

/// Notes the instructions that all replicas have to reach before one goes on, and the room for what they run.
void GraphLowering::findCuts(Code& code) const {
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const Instruction& instruction = drafts_[i].instruction;
    bool cuts = std::holds_alternative<RunCollective>(instruction.what);
    const std::vector<int32_t> runs = codesRunBy(instruction);
    for (const int32_t c : runs) cuts = cuts || !context_.program.codes[static_cast<size_t>(c)].cuts.empty();
    if (!cuts) continue;
    code.cuts.push_back(static_cast<int32_t>(i));
    // Nothing of the frame that replicas share is in use then: what runs has all of it.
    for (const int32_t c : runs)
      code.frameBytes = std::max(code.frameBytes, context_.program.codes[static_cast<size_t>(c)].frameBytes);
  }
}

/// Places the local buffers: those in use at a cut in the replica's own frame, the others in the frame that
/// one replica after another uses. Returns the most bytes in use at once.
algo::LivePeak GraphLowering::placeBuffers(const std::vector<Lifetime>& lives, Code& code,
                                           std::vector<Address>& places) const {
  struct Frame {
    std::vector<algo::Interval> intervals;
    std::vector<size_t> buffers;
  };
  const std::vector<Buffer>& all = storages_.buffers();
  Frame passing, own, both;
  bool calls = false;
  for (size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].last < 0) continue;
    const auto cut = std::lower_bound(code.cuts.begin(), code.cuts.end(), lives[b].first);
    Frame& frame = cut != code.cuts.end() && *cut <= lives[b].last ? own : passing;
    frame.intervals.push_back({all[b].bytes, lives[b].first, lives[b].last});
    frame.buffers.push_back(b);
    // Of a callee's frame only what it uses at once counts.
    const int32_t callee = all[b].frameOf;
    calls = calls || callee >= 0;
    both.intervals.push_back(frame.intervals.back());
    if (callee >= 0)
      both.intervals.back().size = context_.program.codes[static_cast<size_t>(callee)].liveLowerBound;
  }
  const auto place = [&](const Frame& frame, Address::Base base) {
    const algo::OffsetPlan plan = storedPlan(frame.intervals);
    for (size_t i = 0; i < frame.buffers.size(); ++i)
      places[frame.buffers[i]] = {base, 0, plan.offsets[i], nullptr};
    return plan;
  };
  const algo::OffsetPlan plan = place(passing, Address::Base::kFrame);
  code.frameBytes = std::max(code.frameBytes, plan.peak);
  if (!own.buffers.empty()) code.laneBytes = place(own, Address::Base::kLane).peak;
  return calls || !own.buffers.empty() ? algo::livePeak(both.intervals) : plan.live;
}

void GraphLowering::planMemory(Code& code) {
  const std::vector<Lifetime> lives = lifetimes();
  std::vector<Address> places(lives.size(), {Address::Base::kFrame, 0, 0, nullptr});
  findCuts(code);
  const algo::LivePeak live = placeBuffers(lives, code, places);
  code.liveLowerBound = live.bytes;
  notePeak(lives, live.step, code);
  for (Draft& draft : drafts_) {
    patch(draft, places);
    code.instructions.push_back(std::move(draft.instruction));
  }
}

/// Writes the planned addresses into an instruction, in the order in which its references were listed.
void GraphLowering::patch(Draft& draft, const std::vector<Address>& places) {
  size_t next = 0;
  const auto take = [&] { return addressOf(draft.refs[next++], places); };
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
  } else if (auto* collective = std::get_if<RunCollective>(&what)) {
    collective->from = take();
    collective->to = take();
  } else {
    std::get<RunPrint>(what).from = take();
  }
  POPXL_ASSERT(next == draft.refs.size(), "{} of {} references used", next, draft.refs.size());
}

}  // namespace popxl::compile
