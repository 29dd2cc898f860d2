#include <algorithm>

#include "algo/offsets.h"
#include "base/error.h"
#include "compile/lowering.h"

namespace popxl::compile {
namespace {

struct Lifetime {
  int32_t first = INT32_MAX, last = -1;
};

}  // namespace

Address GraphLowering::addressOf(const Ref& ref, const std::vector<int64_t>& offsets) const {
  if (ref.buffer < 0) return {};
  const int32_t buffer = resolve(ref.buffer);
  const Buffer& b = storages_.buffers()[static_cast<size_t>(buffer)];
  switch (b.kind) {
    case Buffer::Kind::kLocal:
      return {Address::Base::kFrame, 0, offsets[static_cast<size_t>(buffer)] + ref.offset, nullptr};
    case Buffer::Kind::kVariable:
      return {Address::Base::kVariable, 0, context_.variableOffsets.at(b.root) + ref.offset, nullptr};
    case Buffer::Kind::kConstant:
      return {Address::Base::kConstant, 0, ref.offset, b.root->data()->bytes};
    case Buffer::Kind::kArgumentIn:
    case Buffer::Kind::kArgumentOut:
      return {Address::Base::kArgument, b.argument, ref.offset, nullptr};
  }
  return {};
}

/// Local buffers live from the first to the last step that touches them; frames and temporaries for one step.
void GraphLowering::planMemory(Code& code) {
  const size_t n = storages_.buffers().size();
  std::vector<Lifetime> lives(n);
  for (const Draft& draft : drafts_) {
    for (const Ref& ref : draft.refs) {
      if (ref.buffer < 0) continue;
      Lifetime& life = lives[static_cast<size_t>(resolve(ref.buffer))];
      life.first = std::min(life.first, draft.step);
      life.last = std::max(life.last, draft.step);
    }
  }
  std::vector<algo::Interval> intervals;
  std::vector<size_t> buffers;
  for (size_t b = 0; b < n; ++b) {
    if (storages_.buffers()[b].kind != Buffer::Kind::kLocal || lives[b].last < 0) continue;
    intervals.push_back({storages_.buffers()[b].bytes, lives[b].first, lives[b].last});
    buffers.push_back(b);
  }
  const algo::OffsetPlan plan = algo::planOffsets(intervals);
  std::vector<int64_t> offsets(n, 0);
  for (size_t i = 0; i < buffers.size(); ++i) offsets[buffers[i]] = plan.offsets[i];
  code.frameBytes = plan.peak;
  code.liveLowerBound = plan.lowerBound;
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
    takeAll(repeat->inputs);
    takeAll(repeat->finals);
    takeAll(repeat->others);
    for (RunRepeat::Fresh& f : repeat->fresh) {
      f.from = take();
      f.to = take();
    }
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
