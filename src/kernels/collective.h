#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace popxl::kernels {

/// How the values of several replicas become one.
enum class CollectiveReduction : uint8_t { kAdd, kMean, kMul, kMin, kMax, kAnd, kOr, kSquareAdd };

/// "add", "mean", ... Error(kValue) for another name.
CollectiveReduction collectiveReduction(std::string_view name);

/// The replicas of each group, in rising order; every replica is in one group.
using ReplicaGroups = std::vector<std::vector<int32_t>>;

/// A part of a replica's operand, in bytes.
struct OperandPart {
  int32_t replica;
  int64_t begin, end;
};

/// What an all-reduce computes; see makeAllReduce.
struct AllReduce {
  CollectiveReduction reduction;
  DType dtype;
  int64_t elements;
  ReplicaGroups groups;
  int64_t divisor = 0;  ///< of a mean; 0: the size of the group
};

/// Work on the memory of all replicas at once, made when a program is compiled and run many times. Allocates
/// nothing, keeps no state, and its result does not depend on the number of threads.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Element 0 of each replica's operand and of its result, both dense. They may be the same memory where
  /// `worksInPlace`, else they must not overlap. A result that is null is left out.
  virtual void run(std::span<std::byte* const> from, std::span<std::byte* const> to) const = 0;
  virtual bool worksInPlace() const { return false; }
  /// What the result of a replica depends on, one part at most of each operand.
  virtual std::vector<OperandPart> reads(int32_t replica) const = 0;
  /// Null where it is none.
  virtual const AllReduce* allReduce() const { return nullptr; }
  virtual std::string describe() const = 0;
};
using CollectivePtr = std::unique_ptr<Collective>;

/// All replicas of a group get the reduction of their operands, element by element. Values meet in the order
/// of the replicas in a fixed tree: halves of a group first, the first half as large as a power of two.
/// Floats are reduced in float32 or wider and rounded once, integers in 64 bits that wrap; a mean of integers
/// is rounded towards 0.
CollectivePtr makeAllReduce(AllReduce what);
/// Whether firstStage of the members of each half of a group, then secondStage of the two results, gives the
/// bits of an all-reduce of all: where what lies between is not rounded.
bool canStage(const AllReduce& what);
/// The reduction of `branches`, each a power of two of members that follow each other in a group.
AllReduce firstStage(const AllReduce& what, ReplicaGroups branches);
/// The reduction of the results of the first stage; its groups are still those of `what`.
AllReduce secondStage(const AllReduce& what);
/// Like makeAllReduce, but member k of a group of n gets elements [k * s, (k + 1) * s) where
/// s = ceil(elements / n); zeros follow the last element.
CollectivePtr makeReduceScatter(CollectiveReduction reduction, DType dtype, int64_t elements,
                                ReplicaGroups groups);
/// The operands of a group's members one after another, `total` elements of them.
CollectivePtr makeAllGather(DType dtype, int64_t elements, int64_t total, ReplicaGroups groups);
/// What makeReduceScatter gives a member, of its own operand.
CollectivePtr makeReplicaSlice(DType dtype, int64_t elements, ReplicaGroups groups);
/// Member k of a group gets part k of every member's operand, in the order of the members.
CollectivePtr makeAllToAll(DType dtype, int64_t elements, ReplicaGroups groups);
/// Replica r gets the operand of replica sources[r], zeros where that is -1; one may be the source of many.
CollectivePtr makePermute(DType dtype, int64_t elements, std::vector<int32_t> sources);

}  // namespace popxl::kernels
