#include <fmt/format.h>

#include "kernels/collective_parts.h"

namespace popxl::kernels {
namespace {

/// Copies: `receive(members, k, from, to)` fills the result of member k of a group from what
/// `reads(members, k)` tells.
template <typename Receive, typename Reads>
class Copies final : public Collective {
 public:
  Copies(std::string what, int64_t bytes, ReplicaGroups groups, Receive receive, Reads reads)
      : what_(std::move(what)),
        bytes_(bytes),
        groups_(std::move(groups)),
        receive_(std::move(receive)),
        reads_(std::move(reads)) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t k = 0; k < groups_[g].size(); ++k) receivers_.emplace_back(g, k);
    }
  }

  void run(std::span<std::byte* const> from, std::span<std::byte* const> to) const override {
    const auto receivers = static_cast<int64_t>(receivers_.size());
    forItems(receivers, bytes_ * receivers / 4, [&](int64_t i) {
      const auto [g, k] = receivers_[static_cast<size_t>(i)];
      const std::vector<int32_t>& members = groups_[g];
      std::byte* result = to[static_cast<size_t>(members[k])];
      if (result != nullptr) receive_(members, k, from, result);
    });
  }
  std::string describe() const override { return what_; }
  std::vector<OperandPart> reads(int32_t replica) const override {
    const auto [members, k] = placeOf(replica, groups_);
    return reads_(*members, static_cast<size_t>(k));
  }

 private:
  std::string what_;
  int64_t bytes_;  ///< of one result
  ReplicaGroups groups_;
  std::vector<std::pair<size_t, size_t>> receivers_;
  Receive receive_;
  Reads reads_;
};

using Members = std::vector<int32_t>;
using Operands = std::span<std::byte* const>;

template <typename Receive, typename Reads>
CollectivePtr makeCopies(std::string_view what, DType dtype, int64_t elements, ReplicaGroups groups,
                         Receive receive, Reads reads) {
  std::string text = fmt::format("{} {} {} over {} group(s) of {}", what, popxl::nameOf(dtype), elements,
                                 groups.size(), groups.front().size());
  return std::make_unique<Copies<Receive, Reads>>(std::move(text), elements * sizeOf(dtype),
                                                  std::move(groups), std::move(receive), std::move(reads));
}

/// Reads each piece once and writes it to all members while it is in the cache.
class Gather final : public Collective {
 public:
  Gather(DType dtype, int64_t elements, int64_t total, ReplicaGroups groups)
      : dtype_(dtype),
        bytes_(elements * sizeOf(dtype)),
        total_(total * sizeOf(dtype)),
        groups_(std::move(groups)) {}

  void run(std::span<std::byte* const> from, std::span<std::byte* const> to) const override {
    const int64_t pieces = ceilDiv(bytes_, kPiece), size = static_cast<int64_t>(groups_.front().size());
    const bool stream = total_ * static_cast<int64_t>(to.size()) > kStreamBytes;
    const int64_t items = pieces * static_cast<int64_t>(from.size());
    forItems(items, total_ * static_cast<int64_t>(to.size()) / 4, [&](int64_t i) {
      const int64_t source = i / pieces, first = i % pieces * kPiece, k = source % size;
      const std::vector<int32_t>& members = groups_[static_cast<size_t>(source / size)];
      const int64_t begin = k * bytes_ + first;
      const int64_t bytes = std::min({kPiece, bytes_ - first, total_ - begin});
      const std::byte* operand = from[static_cast<size_t>(members[static_cast<size_t>(k)])];
      for (const int32_t m : members) {
        std::byte* result = to[static_cast<size_t>(m)];
        if (result != nullptr) copyPart(result + begin, operand + first, bytes, stream);
      }
      if (stream) simd::flushStream();
    });
  }
  std::vector<OperandPart> reads(int32_t replica) const override {
    std::vector<OperandPart> out;
    int64_t begin = 0;
    for (const int32_t m : *placeOf(replica, groups_).first) {
      if (begin < total_) out.push_back({m, 0, std::min(bytes_, total_ - begin)});
      begin += bytes_;
    }
    return out;
  }
  std::string describe() const override {
    return fmt::format("all_gather {} {} over {} group(s) of {}", popxl::nameOf(dtype_),
                       total_ / sizeOf(dtype_), groups_.size(), groups_.front().size());
  }

 private:
  static constexpr int64_t kPiece = 128 * 1024;  ///< bytes
  DType dtype_;
  int64_t bytes_, total_;  ///< of an operand, of a result
  ReplicaGroups groups_;
};

}  // namespace

CollectivePtr makeAllGather(DType dtype, int64_t elements, int64_t total, ReplicaGroups groups) {
  return std::make_unique<Gather>(dtype, elements, total, std::move(groups));
}

CollectivePtr makeReplicaSlice(DType dtype, int64_t elements, ReplicaGroups groups) {
  const int64_t part = ceilDiv(elements, static_cast<int64_t>(groups.front().size())) * sizeOf(dtype);
  const int64_t all = elements * sizeOf(dtype);
  const auto reads = [part, all](const Members& members, size_t k) -> std::vector<OperandPart> {
    const int64_t begin = std::min(all, static_cast<int64_t>(k) * part);
    return {{members[k], begin, std::min(all, begin + part)}};
  };
  const auto receive = [part, reads](const Members& members, size_t k, Operands from, std::byte* to) {
    const OperandPart own = reads(members, k).front();
    const int64_t present = own.end - own.begin;
    copyPart(to, from[static_cast<size_t>(own.replica)] + own.begin, present);
    std::fill(to + present, to + part, std::byte{0});
  };
  return makeCopies("replica_slice", dtype, part / sizeOf(dtype), std::move(groups), receive, reads);
}

CollectivePtr makeAllToAll(DType dtype, int64_t elements, ReplicaGroups groups) {
  const int64_t part = elements / static_cast<int64_t>(groups.front().size()) * sizeOf(dtype);
  const auto receive = [part](const Members& members, size_t k, Operands from, std::byte* to) {
    for (size_t j = 0; j < members.size(); ++j) {
      copyPart(to + static_cast<int64_t>(j) * part,
               from[static_cast<size_t>(members[j])] + static_cast<int64_t>(k) * part, part);
    }
  };
  const auto reads = [part](const Members& members, size_t k) {
    std::vector<OperandPart> out;
    for (const int32_t m : members)
      out.push_back({m, static_cast<int64_t>(k) * part, static_cast<int64_t>(k + 1) * part});
    return out;
  };
  return makeCopies("all_to_all", dtype, elements, std::move(groups), receive, reads);
}

CollectivePtr makePermute(DType dtype, int64_t elements, std::vector<int32_t> sources) {
  const int64_t bytes = elements * sizeOf(dtype);
  Members all(sources.size());
  for (size_t r = 0; r < all.size(); ++r) all[r] = static_cast<int32_t>(r);
  const auto receive = [bytes, sources](const Members&, size_t k, Operands from, std::byte* to) {
    if (sources[k] < 0) {
      std::fill(to, to + bytes, std::byte{0});
    } else {
      copyPart(to, from[static_cast<size_t>(sources[k])], bytes);
    }
  };
  const auto reads = [bytes, sources = std::move(sources)](const Members&,
                                                           size_t k) -> std::vector<OperandPart> {
    if (sources[k] < 0) return {};
    return {{sources[k], 0, bytes}};
  };
  return makeCopies("permute", dtype, elements, {std::move(all)}, receive, reads);
}

}  // namespace popxl::kernels
