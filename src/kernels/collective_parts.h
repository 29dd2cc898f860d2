#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/collective.h"
#include "kernels/copy.h"
#include "kernels/parallel.h"
#include "kernels/rows_simd.h"

// What collectives that reduce and collectives that copy have in common.
namespace popxl::kernels {

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// `stream` where the results of all replicas, or the mean of these and the operands, are larger than
/// kStreamBytes. Who copies with it calls simd::flushStream in the end.
inline void copyPart(std::byte* to, const std::byte* from, int64_t bytes, bool stream = false) {
  if (stream && bytes >= 1024) return simd::moveOps().stream(from, to, bytes);
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

template <typename Body>
void forItems(int64_t items, int64_t elements, const Body& body) {
  if (elements >= kSerialElements) return parallelFor(items, body);
  for (int64_t i = 0; i < items; ++i) body(i);
}

/// The group of a replica, and its place there.
inline std::pair<const std::vector<int32_t>*, int64_t> placeOf(int32_t replica, const ReplicaGroups& groups) {
  for (const auto& members : groups) {
    const auto found = std::find(members.begin(), members.end(), replica);
    if (found != members.end()) return {&members, found - members.begin()};
  }
  POPXL_ASSERT(false, "replica {} is in no group", replica);
}

}  // namespace popxl::kernels
