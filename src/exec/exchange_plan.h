#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/collective.h"

namespace popxl::exec {

/// Bytes that a collective over several processes moves: in the operand or the result of a replica of this
/// process, or in memory that the plan asks for.
struct Place {
  enum class Kind : uint8_t { kNone, kOperand, kResult, kMemory };
  Kind kind = Kind::kNone;
  int32_t replica = 0;
  int64_t offset = 0;

  Place plus(int64_t bytes) const { return {kind, replica, offset + bytes}; }
};

struct Copy {
  Place from, to;
  int64_t bytes;
};

/// What goes to or comes from another process in one message.
struct Transfer {
  int32_t peer;
  Place at;
  int64_t bytes;
};

/// Messages that are all under way at once. There is one at most from each process to each other.
struct Round {
  std::vector<Copy> pack;  ///< before: what makes one message of several pieces
  std::vector<Transfer> sends, receives;
  std::vector<Copy> unpack;
};

/// A collective on what this process has, and where replicas' operands and results are for it.
struct LocalPart {
  const kernels::Collective* collective = nullptr;
  std::vector<Place> from, to;  ///< by replica
};

/// How one process takes part in a collective.
///
/// Operands are sent to where a result needs them, and only their parts that it needs. An all-reduce that is
/// not small is cut: each process that has members of a group reduces one part of the elements and sends it
/// to the others, so that a process sends and receives twice the operand, however many there are. Replicas of
/// a process that are a whole branch of the tree of the reduction are reduced before, where that changes no
/// bit.
struct ExchangePlan {
  std::vector<LocalPart> before;  ///< of what this process has
  Round first;
  std::vector<LocalPart> parts;
  Round second;             ///< of an all-reduce: parts of the result
  std::vector<Copy> share;  ///< its result to all members that this process has
  int64_t bytes = 0;        ///< of memory
  std::vector<kernels::CollectivePtr> own;
};

/// The memory that the places of a run are in; operands and results by replica of this process.
struct RunMemory {
  std::span<std::byte*const> from, to;
  std::byte* memory;
  int64_t first;  ///< number of the first of them

  std::byte* at(const Place& place) const;
};
void runCopies(const std::vector<Copy>& copies, const RunMemory& memory);

/// The plan of the process that has `lanes` replicas from number `first` on, of `replicas` in all.
ExchangePlan planExchange(const kernels::Collective& collective, int64_t lanes, int64_t first,
                          int64_t replicas);

}  // namespace popxl::exec
