#include "exec/exchange_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/error.h"
#include "kernels/parallel.h"

namespace popxl::exec {
namespace {

using kernels::AllReduce;
using kernels::OperandPart;
using Kind = Place::Kind;

constexpr int64_t kAlign = 64;              // bytes
constexpr int64_t kOneRound = 8 * 1024;     // up to here one message is faster than two half as long
constexpr int64_t kCopyBytes = 256 * 1024;  // of one copy: they are what threads share

int64_t roundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// What all plans are made of: who has which replica, and memory that is handed out.
class Planner {
 public:
  Planner(int64_t lanes, int64_t first, int64_t replicas)
      : lanes_(static_cast<int32_t>(lanes)),
        self_(static_cast<int32_t>(first / lanes)),
        replicas_(static_cast<size_t>(replicas)) {}

  ExchangePlan take() { return std::move(plan_); }

 protected:
  int32_t processOf(int32_t replica) const { return replica / lanes_; }
  bool isOwn(int32_t replica) const { return processOf(replica) == self_; }
  int32_t processes() const { return static_cast<int32_t>(replicas_) / lanes_; }

  int64_t reserve(int64_t bytes) {
    const int64_t offset = plan_.bytes;
    plan_.bytes += roundUp(bytes, kAlign);
    return offset;
  }

  static void addCopy(std::vector<Copy>& list, Place from, Place to, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kCopyBytes)
      list.push_back({from.plus(done), to.plus(done), std::min(kCopyBytes, bytes - done)});
  }

  /// One message of pieces: the piece itself if it is the only one, else memory. `copy(piece, place)` for
  /// each of several and its place there.
  template <typename CopyPiece>
  void addMessage(std::vector<Transfer>& list, const std::vector<Transfer>& pieces, const CopyPiece& copy) {
    int64_t bytes = 0;
    for (const Transfer& piece : pieces) bytes += piece.bytes;
    if (bytes == 0) return;
    if (pieces.size() == 1) return list.push_back(pieces.front());
    Place next = {Kind::kMemory, 0, reserve(bytes)};
    list.push_back({pieces.front().peer, next, bytes});
    for (const Transfer& piece : pieces) {
      copy(piece, next);
      next = next.plus(piece.bytes);
    }
  }
  void send(Round& round, const std::vector<Transfer>& pieces) {
    addMessage(round.sends, pieces,
               [&](const Transfer& t, Place place) { addCopy(round.pack, t.at, place, t.bytes); });
  }
  void receive(Round& round, const std::vector<Transfer>& pieces) {
    addMessage(round.receives, pieces,
               [&](const Transfer& t, Place place) { addCopy(round.unpack, place, t.at, t.bytes); });
  }

  /// Parts of operands from each process to each that needs them, those of one process in one piece of
  /// memory. Where they arrive is told by replica as if the whole operand were there. `whereOwn` tells what
  /// stands for an operand of this process.
  template <typename Needs, typename WhereOwn>
  void exchangeOperands(const Needs& needs, const WhereOwn& whereOwn, std::vector<Place>& arrived) {
    for (int32_t peer = 0; peer < processes(); ++peer) {
      if (peer == self_) continue;
      std::vector<Transfer> out;
      for (const OperandPart& part : needs(peer)) {
        if (isOwn(part.replica))
          out.push_back({peer, whereOwn(part.replica).plus(part.begin), part.end - part.begin});
      }
      send(plan_.first, out);
      int64_t bytes = 0;
      for (const OperandPart& part : needs(self_)) {
        if (processOf(part.replica) != peer) continue;
        arrived[static_cast<size_t>(part.replica)] = {Kind::kMemory, 0, plan_.bytes + bytes - part.begin};
        bytes += part.end - part.begin;
      }
      if (bytes > 0) plan_.first.receives.push_back({peer, {Kind::kMemory, 0, reserve(bytes)}, bytes});
    }
  }

  const int32_t lanes_, self_;
  const size_t replicas_;
  ExchangePlan plan_;
};

/// A collective whose results are made where they are wanted, of what they need of other operands.
class Gathered : public Planner {
 public:
  using Planner::Planner;

  ExchangePlan make(const kernels::Collective& collective) {
    LocalPart part{&collective, std::vector<Place>(replicas_), std::vector<Place>(replicas_)};
    const auto own = [](int32_t replica) { return Place{Kind::kOperand, replica, 0}; };
    exchangeOperands([&](int32_t process) { return needsOf(process, collective); }, own, part.from);
    for (int32_t r = self_ * lanes_; r < (self_ + 1) * lanes_; ++r) {
      part.from[static_cast<size_t>(r)] = own(r);
      part.to[static_cast<size_t>(r)] = {Kind::kResult, r, 0};
    }
    plan_.parts.push_back(std::move(part));
    return take();
  }

 private:
  /// Of each operand the smallest range that holds all that a process needs of it, by replica.
  std::vector<OperandPart> needsOf(int32_t process, const kernels::Collective& collective) const {
    std::map<int32_t, OperandPart> all;
    for (int32_t r = process * lanes_; r < (process + 1) * lanes_; ++r) {
      for (const OperandPart& part : collective.reads(r)) {
        auto [known, isNew] = all.emplace(part.replica, part);
        known->second.begin = std::min(known->second.begin, part.begin);
        known->second.end = std::max(known->second.end, part.end);
      }
    }
    std::vector<OperandPart> out;
    for (const auto& [replica, part] : all) out.push_back(part);
    return out;
  }
};

/// An all-reduce, see ExchangePlan.
class Reduced : public Planner {
 public:
  Reduced(const AllReduce& what, int64_t lanes, int64_t first, int64_t replicas)
      : Planner(lanes, first, replicas), what_(what), size_(popxl::sizeOf(what.dtype)) {
    for (const auto& members : what.groups) groups_.push_back(split(members));
  }

  ExchangePlan make(const kernels::Collective& collective) {
    reduceWithin(collective);
    combineBranches();
    LocalPart arrived{nullptr, std::vector<Place>(replicas_), std::vector<Place>(replicas_)};
    exchangeOperands([&](int32_t process) { return needsOf(process); },
                     [&](int32_t replica) { return operandOf(replica); }, arrived.from);
    reduceSlices(arrived);
    exchangeResults();
    return take();
  }

 private:
  struct Group {
    std::vector<int32_t> members;
    std::vector<int32_t> processes;  ///< that have members, in the order of the first of each
    std::vector<int32_t> leaders;    ///< the first member of each
    bool combined = false;           ///< each process reduces its members before
    bool spans() const { return processes.size() > 1; }
    bool has(int32_t process) const { return placeOf(process) < processes.size(); }
    /// The first member that a process has.
    int32_t leaderOf(int32_t process) const { return leaders.at(placeOf(process)); }
    /// Of a process among those that have members; their number for one that has none.
    size_t placeOf(int32_t process) const {
      return static_cast<size_t>(std::find(processes.begin(), processes.end(), process) - processes.begin());
    }
    /// The replicas whose values meet in the reduction of slices.
    const std::vector<int32_t>& sources() const { return combined ? leaders : members; }
  };
  struct Range {
    int64_t begin, end;  ///< elements
  };

  Group split(const std::vector<int32_t>& members) const {
    Group group{members, {}, {}, false};
    std::map<int32_t, size_t> counts;
    bool consecutive = true;
    for (const int32_t m : members) {
      const int32_t process = processOf(m);
      if (counts[process]++ == 0) {
        group.processes.push_back(process);
        group.leaders.push_back(m);
      } else {
        consecutive = consecutive && group.processes.back() == process;
      }
    }
    const size_t each = counts.begin()->second;
    const bool branches =
        consecutive && each > 1 && std::has_single_bit(each) &&
        std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c.second == each; });
    group.combined = group.spans() && branches && kernels::canStage(what_);
    return group;
  }

  /// The elements that a process of a group reduces.
  Range sliceOf(const Group& group, int32_t process) const {
    const auto place = static_cast<int64_t>(group.placeOf(process));
    const auto parts = static_cast<int64_t>(group.processes.size());
    POPXL_ASSERT(place < parts, "process {} has no member", process);
    const int64_t each = roundUp((what_.elements + parts - 1) / parts, kAlign / size_);
    return {std::min(what_.elements, place * each), std::min(what_.elements, (place + 1) * each)};
  }

  template <typename F>
  void forSpanning(int32_t process, const F& f) const {
    for (const Group& group : groups_) {
      if (group.spans() && group.has(process)) f(group);
    }
  }

  const kernels::Collective* keep(AllReduce what) {
    plan_.own.push_back(kernels::makeAllReduce(std::move(what)));
    return plan_.own.back().get();
  }

  /// Groups that this process has alone.
  void reduceWithin(const kernels::Collective& collective) {
    LocalPart part{&collective, std::vector<Place>(replicas_), std::vector<Place>(replicas_)};
    bool any = false;
    for (const Group& group : groups_) {
      if (group.spans() || group.processes.front() != self_) continue;
      any = true;
      for (const int32_t m : group.members) {
        part.from[static_cast<size_t>(m)] = {Kind::kOperand, m, 0};
        part.to[static_cast<size_t>(m)] = {Kind::kResult, m, 0};
      }
    }
    if (any) plan_.before.push_back(std::move(part));
  }

  /// Makes the result of a leader the reduction of the members of its process.
  void combineBranches() {
    LocalPart part{nullptr, std::vector<Place>(replicas_), std::vector<Place>(replicas_)};
    kernels::ReplicaGroups branches;
    forSpanning(self_, [&](const Group& group) {
      if (!group.combined) return;
      std::vector<int32_t>& branch = branches.emplace_back();
      for (const int32_t m : group.members) {
        if (!isOwn(m)) continue;
        branch.push_back(m);
        part.from[static_cast<size_t>(m)] = {Kind::kOperand, m, 0};
      }
      part.to[static_cast<size_t>(branch.front())] = {Kind::kResult, branch.front(), 0};
    });
    if (branches.empty()) return;
    part.collective = keep(kernels::firstStage(what_, std::move(branches)));
    plan_.before.push_back(std::move(part));
  }

  /// What stands for the operand of one of this process's replicas.
  Place operandOf(int32_t replica) const {
    for (const Group& group : groups_) {
      if (!group.combined ||
          std::find(group.leaders.begin(), group.leaders.end(), replica) == group.leaders.end())
        continue;
      return {Kind::kResult, replica, 0};
    }
    return {Kind::kOperand, replica, 0};
  }

  std::vector<OperandPart> needsOf(int32_t process) const {
    std::vector<OperandPart> out;
    forSpanning(process, [&](const Group& group) {
      const Range slice = sliceOf(group, process);
      if (slice.begin == slice.end) return;
      for (const int32_t m : group.sources()) out.push_back({m, slice.begin * size_, slice.end * size_});
    });
    return out;
  }

  /// Slices of the same size are reduced together.
  void reduceSlices(const LocalPart& arrived) {
    std::map<std::pair<int64_t, bool>, std::vector<const Group*>> bySize;
    forSpanning(self_, [&](const Group& group) {
      const Range slice = sliceOf(group, self_);
      if (slice.begin < slice.end) bySize[{slice.end - slice.begin, group.combined}].push_back(&group);
    });
    for (const auto& [key, groups] : bySize) {
      LocalPart part{nullptr, std::vector<Place>(replicas_), std::vector<Place>(replicas_)};
      kernels::ReplicaGroups members;
      for (const Group* group : groups) {
        const int64_t begin = sliceOf(*group, self_).begin * size_;
        for (const int32_t m : group->sources()) {
          const Place at = isOwn(m) ? operandOf(m) : arrived.from[static_cast<size_t>(m)];
          part.from[static_cast<size_t>(m)] = at.plus(begin);
        }
        const int32_t leader = group->leaderOf(self_);
        part.to[static_cast<size_t>(leader)] = {Kind::kResult, leader, begin};
        members.push_back(group->sources());
      }
      AllReduce slice = what_;
      if (key.second) slice = kernels::secondStage(what_);
      slice.elements = key.first;
      slice.groups = std::move(members);
      part.collective = keep(std::move(slice));
      plan_.parts.push_back(std::move(part));
    }
  }

  /// Each leader gets the slices of the others, then its process's other members all of the result.
  void exchangeResults() {
    for (int32_t peer = 0; peer < processes(); ++peer) {
      if (peer == self_) continue;
      std::vector<Transfer> out, in;
      forSpanning(self_, [&](const Group& group) {
        if (!group.has(peer)) return;
        const Place result = {Kind::kResult, group.leaderOf(self_), 0};
        const Range mine = sliceOf(group, self_), other = sliceOf(group, peer);
        out.push_back({peer, result.plus(mine.begin * size_), (mine.end - mine.begin) * size_});
        in.push_back({peer, result.plus(other.begin * size_), (other.end - other.begin) * size_});
      });
      send(plan_.second, out);
      receive(plan_.second, in);
    }
    forSpanning(self_, [&](const Group& group) {
      const int32_t leader = group.leaderOf(self_);
      for (const int32_t m : group.members) {
        if (!isOwn(m) || m == leader) continue;
        addCopy(plan_.share, {Kind::kResult, leader, 0}, {Kind::kResult, m, 0}, what_.elements * size_);
      }
    });
  }

  const AllReduce& what_;
  const int64_t size_;  // of an element, in bytes
  std::vector<Group> groups_;
};

}  // namespace

std::byte* RunMemory::at(const Place& place) const {
  const auto lane = static_cast<size_t>(place.replica - first);
  switch (place.kind) {
    case Kind::kOperand:
      return from[lane] + place.offset;
    case Kind::kResult:
      return to[lane] + place.offset;
    case Kind::kMemory:  // may be the place of a whole operand of which a part is there
      return reinterpret_cast<std::byte*>(reinterpret_cast<intptr_t>(memory) + place.offset);
    default:
      return nullptr;
  }
}

void runCopies(const std::vector<Copy>& copies, const RunMemory& memory) {
  const auto run = [&](int64_t i) {
    const Copy& copy = copies[static_cast<size_t>(i)];
    std::memcpy(memory.at(copy.to), memory.at(copy.from), static_cast<size_t>(copy.bytes));
  };
  kernels::parallelFor(static_cast<int64_t>(copies.size()), run);
}

ExchangePlan planExchange(const kernels::Collective& collective, int64_t lanes, int64_t first,
                          int64_t replicas) {
  const AllReduce* what = collective.allReduce();
  if (what != nullptr && what->elements * popxl::sizeOf(what->dtype) > kOneRound)
    return Reduced(*what, lanes, first, replicas).make(collective);
  return Gathered(lanes, first, replicas).make(collective);
}

}  // namespace popxl::exec
