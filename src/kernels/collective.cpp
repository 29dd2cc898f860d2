#include "kernels/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/parallel.h"
#include "kernels/rows_simd.h"

namespace popxl::kernels {
namespace {

using Reduction = CollectiveReduction;

struct NamedReduction {
  std::string_view name;
  Reduction reduction;
};
constexpr std::array<NamedReduction, 8> kReductions = {{{"add", Reduction::kAdd},
                                                        {"mean", Reduction::kMean},
                                                        {"mul", Reduction::kMul},
                                                        {"min", Reduction::kMin},
                                                        {"max", Reduction::kMax},
                                                        {"and", Reduction::kAnd},
                                                        {"or", Reduction::kOr},
                                                        {"square_add", Reduction::kSquareAdd}}};

std::string_view nameOf(Reduction reduction) {
  return std::find_if(kReductions.begin(), kReductions.end(),
                      [&](const NamedReduction& r) { return r.reduction == reduction; })
      ->name;
}

constexpr int64_t kRow = 512;         ///< elements that are reduced at once
constexpr int64_t kItem = 16 * kRow;  ///< elements that one work item takes
constexpr int64_t kMaxDepth = 24;     ///< of the tree: more replicas than anyone has

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Results of all replicas larger than this are written past the caches: they would not stay there anyway.
constexpr int64_t kStreamBytes = 16 << 20;

void copyPart(std::byte* to, const std::byte* from, int64_t bytes, bool stream = false) {
  if (stream && bytes >= 1024) return simd::moveOps().stream(from, to, bytes);
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

template <typename Body>
void forItems(int64_t items, int64_t elements, const Body& body) {
  if (elements >= kSerialElements) return parallelFor(items, body);
  for (int64_t i = 0; i < items; ++i) body(i);
}

/// What a stored type is reduced in. Integers wrap, so their arithmetic is that of unsigned ones.
struct HalfBits {
  uint16_t bits;
};
template <typename T>
using Wide =
    std::conditional_t<std::is_same_v<T, HalfBits>, float,
                       std::conditional_t<std::is_floating_point_v<T>, T,
                                          std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>>;

template <typename T>
void loadRow(const std::byte* from, int64_t first, int64_t n, Wide<T>* to) {
  const T* values = reinterpret_cast<const T*>(from) + first;
  if constexpr (std::is_same_v<T, HalfBits>) {
    simd::moveOps().halfToFloat(reinterpret_cast<const uint16_t*>(values), to, n);
  } else {
    std::copy_n(values, n, to);
  }
}

template <typename T>
void storeRow(const Wide<T>* from, int64_t first, int64_t n, std::byte* to) {
  T* values = reinterpret_cast<T*>(to) + first;
  if constexpr (std::is_same_v<T, HalfBits>) {
    simd::moveOps().floatToHalf(from, reinterpret_cast<uint16_t*>(values), n);
  } else {
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(from[i]);
  }
}

template <typename W>
W sumOf(W a, W b) {
  if constexpr (std::is_same_v<W, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename W>
W productOf(W a, W b) {
  if constexpr (std::is_same_v<W, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename W>
bool isNaN(W x) {
  if constexpr (std::is_floating_point_v<W>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

template <typename W, typename F>
void combineRow(W* a, const W* b, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; ++i) a[i] = f(a[i], b[i]);
}

/// a = reduction of a and b. NaN wins over every number.
template <typename W>
void combine(Reduction reduction, W* a, const W* b, int64_t n) {
  switch (reduction) {
    case Reduction::kAdd:
    case Reduction::kMean:
    case Reduction::kSquareAdd:
      return combineRow(a, b, n, sumOf<W>);
    case Reduction::kMul:
      return combineRow(a, b, n, productOf<W>);
    case Reduction::kMin:
      return combineRow(a, b, n, [](W x, W y) { return x < y || isNaN(x) ? x : y; });
    case Reduction::kMax:
      return combineRow(a, b, n, [](W x, W y) { return y < x || isNaN(x) ? x : y; });
    case Reduction::kAnd:
      return combineRow(a, b, n, [](W x, W y) { return static_cast<W>(x != 0 && y != 0); });
    case Reduction::kOr:
      return combineRow(a, b, n, [](W x, W y) { return static_cast<W>(x != 0 || y != 0); });
  }
}

/// What an operand's value counts as.
template <typename W>
void enter(Reduction reduction, W* row, int64_t n) {
  if (reduction == Reduction::kSquareAdd) {
    for (int64_t i = 0; i < n; ++i) row[i] = productOf(row[i], row[i]);
  } else if (reduction == Reduction::kAnd || reduction == Reduction::kOr) {
    for (int64_t i = 0; i < n; ++i) row[i] = static_cast<W>(row[i] != 0);
  }
}

/// Elements [first, first + n) of the members' reduction; `scratch` holds a row for each level below.
template <typename T>
void reduceRow(Reduction reduction, std::span<const int32_t> members, std::span<std::byte* const> from,
               int64_t first, int64_t n, Wide<T>* out, Wide<T>* scratch) {
  if (members.size() == 1) {
    loadRow<T>(from[static_cast<size_t>(members[0])], first, n, out);
    return enter(reduction, out, n);
  }
  const size_t half = std::bit_floor(members.size() - 1);
  reduceRow<T>(reduction, members.first(half), from, first, n, out, scratch);
  reduceRow<T>(reduction, members.subspan(half), from, first, n, scratch, scratch + kRow);
  combine(reduction, out, scratch, n);
}

/// f(first element, values, number of them) for the rows of an item's reduction.
template <typename T, typename F>
void reduceItem(Reduction reduction, std::span<const int32_t> members, std::span<std::byte* const> from,
                int64_t first, int64_t end, const F& f) {
  Wide<T> rows[kRow * kMaxDepth];
  for (int64_t at = first; at < end; at += kRow) {
    const int64_t n = std::min(kRow, end - at);
    reduceRow<T>(reduction, members, from, at, n, rows, rows + kRow);
    if (reduction == Reduction::kMean) {
      const auto size = static_cast<Wide<T>>(members.size());
      for (int64_t i = 0; i < n; ++i) rows[i] /= size;
    }
    f(at, rows, n);
  }
}

/// Reductions to all members, or to each its share.
template <typename T>
class Reduce final : public Collective {
 public:
  Reduce(Reduction reduction, DType dtype, int64_t elements, ReplicaGroups groups, bool scatters)
      : reduction_(reduction),
        dtype_(dtype),
        elements_(elements),
        groups_(std::move(groups)),
        scatters_(scatters) {
    for (const auto& members : groups_)
      POPXL_ASSERT(members.size() < size_t{1} << (kMaxDepth - 2), "too many");
  }

  void run(std::span<std::byte* const> from, std::span<std::byte* const> to) const override {
    const int64_t items = ceilDiv(elements_, kItem);
    const auto replicas = static_cast<int64_t>(from.size());
    forItems(items * static_cast<int64_t>(groups_.size()), elements_ * replicas, [&](int64_t i) {
      const auto& members = groups_[static_cast<size_t>(i / items)];
      if (std::none_of(members.begin(), members.end(),
                       [&](int32_t m) { return to[static_cast<size_t>(m)] != nullptr; }))
        return;
      const int64_t first = i % items * kItem, end = std::min(first + kItem, elements_);
      reduceItem<T>(reduction_, members, from, first, end, [&](int64_t at, const Wide<T>* row, int64_t n) {
        scatters_ ? scatter(members, at, row, n, to) : share(members, at, row, n, to);
      });
    });
    if (scatters_) padWithZeros(to);
  }
  bool worksInPlace() const override { return !scatters_; }
  std::string describe() const override {
    return fmt::format("{} {} {} {} over {} group(s) of {}", scatters_ ? "reduce_scatter" : "all_reduce",
                       nameOf(reduction_), popxl::nameOf(dtype_), elements_, groups_.size(),
                       groups_.front().size());
  }

 private:
  void share(std::span<const int32_t> members, int64_t at, const Wide<T>* row, int64_t n,
             std::span<std::byte* const> to) const {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    const bool stream = elements_ * kSize * static_cast<int64_t>(to.size()) > kStreamBytes;
    for (const int32_t m : members) {
      std::byte* result = to[static_cast<size_t>(m)];
      if (result == nullptr) continue;
      if constexpr (std::is_same_v<T, Wide<T>>) {
        copyPart(result + at * kSize, reinterpret_cast<const std::byte*>(row), n * kSize, stream);
      } else {
        storeRow<T>(row, at, n, result);
      }
    }
  }

  void scatter(std::span<const int32_t> members, int64_t at, const Wide<T>* row, int64_t n,
               std::span<std::byte* const> to) const {
    const int64_t part = ceilDiv(elements_, static_cast<int64_t>(members.size()));
    for (int64_t done = 0; done < n;) {
      const int64_t owner = (at + done) / part, begin = (at + done) % part;
      const int64_t count = std::min(n - done, part - begin);
      std::byte* result = to[static_cast<size_t>(members[static_cast<size_t>(owner)])];
      if (result != nullptr) storeRow<T>(row + done, begin, count, result);
      done += count;
    }
  }

  void padWithZeros(std::span<std::byte* const> to) const {
    for (const auto& members : groups_) {
      const int64_t part = ceilDiv(elements_, static_cast<int64_t>(members.size()));
      for (size_t k = 0; k < members.size(); ++k) {
        const int64_t present = std::clamp<int64_t>(elements_ - static_cast<int64_t>(k) * part, 0, part);
        T* values = reinterpret_cast<T*>(to[static_cast<size_t>(members[k])]);
        if (values == nullptr) continue;
        std::fill(values + present, values + part, T{});
      }
    }
  }

  Reduction reduction_;
  DType dtype_;
  int64_t elements_;
  ReplicaGroups groups_;
  bool scatters_;
};

CollectivePtr makeReduction(Reduction reduction, DType dtype, int64_t elements, ReplicaGroups groups,
                            bool scatters) {
  const auto make = [&]<typename T>(T) -> CollectivePtr {
    return std::make_unique<Reduce<T>>(reduction, dtype, elements, std::move(groups), scatters);
  };
  switch (dtype) {
    case DType::kFloat16:
      return make(HalfBits{});
    case DType::kFloat32:
      return make(float{});
    case DType::kFloat64:
      return make(double{});
    case DType::kInt8:
      return make(int8_t{});
    case DType::kInt16:
      return make(int16_t{});
    case DType::kInt32:
      return make(int32_t{});
    case DType::kInt64:
      return make(int64_t{});
    case DType::kUInt8:
    case DType::kBool:
      return make(uint8_t{});
    case DType::kUInt16:
      return make(uint16_t{});
    case DType::kUInt32:
      return make(uint32_t{});
    case DType::kUInt64:
      return make(uint64_t{});
    default:
      POPXL_ASSERT(false, "a reduction of {}", popxl::nameOf(dtype));
  }
}

/// Copies: `receive(members, k, from, to)` fills the result of member k of a group.
template <typename Receive>
class Copies final : public Collective {
 public:
  Copies(std::string what, int64_t bytes, ReplicaGroups groups, Receive receive)
      : what_(std::move(what)), bytes_(bytes), groups_(std::move(groups)), receive_(std::move(receive)) {
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

 private:
  std::string what_;
  int64_t bytes_;  ///< of one result
  ReplicaGroups groups_;
  std::vector<std::pair<size_t, size_t>> receivers_;
  Receive receive_;
};

template <typename Receive>
CollectivePtr makeCopies(std::string_view what, DType dtype, int64_t elements, ReplicaGroups groups,
                         Receive receive) {
  std::string text = fmt::format("{} {} {} over {} group(s) of {}", what, popxl::nameOf(dtype), elements,
                                 groups.size(), groups.front().size());
  return std::make_unique<Copies<Receive>>(std::move(text), elements * sizeOf(dtype), std::move(groups),
                                           std::move(receive));
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
      const std::byte* piece = from[static_cast<size_t>(members[static_cast<size_t>(k)])] + first;
      for (const int32_t m : members) {
        std::byte* result = to[static_cast<size_t>(m)];
        if (result != nullptr) copyPart(result + begin, piece, bytes, stream);
      }
    });
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

CollectiveReduction collectiveReduction(std::string_view name) {
  std::string known;
  for (const auto& [own, reduction] : kReductions) {
    if (own == name) return reduction;
    known += (known.empty() ? "" : ", ") + std::string(own);
  }
  fail(ErrorKind::kValue, "`{}` is no reduction of replicas; use one of: {}", name, known);
}

CollectivePtr makeAllReduce(CollectiveReduction reduction, DType dtype, int64_t elements,
                            ReplicaGroups groups) {
  return makeReduction(reduction, dtype, elements, std::move(groups), false);
}

CollectivePtr makeReduceScatter(CollectiveReduction reduction, DType dtype, int64_t elements,
                                ReplicaGroups groups) {
  return makeReduction(reduction, dtype, elements, std::move(groups), true);
}

CollectivePtr makeAllGather(DType dtype, int64_t elements, int64_t total, ReplicaGroups groups) {
  return std::make_unique<Gather>(dtype, elements, total, std::move(groups));
}

CollectivePtr makeReplicaSlice(DType dtype, int64_t elements, ReplicaGroups groups) {
  const int64_t part = ceilDiv(elements, static_cast<int64_t>(groups.front().size())) * sizeOf(dtype);
  const int64_t all = elements * sizeOf(dtype);
  return makeCopies("replica_slice", dtype, part / sizeOf(dtype), std::move(groups),
                    [part, all](const std::vector<int32_t>& members, size_t k,
                                std::span<std::byte* const> from, std::byte* to) {
                      const int64_t begin = static_cast<int64_t>(k) * part;
                      const int64_t present = std::clamp<int64_t>(all - begin, 0, part);
                      copyPart(to, from[static_cast<size_t>(members[k])] + begin, present);
                      std::fill(to + present, to + part, std::byte{0});
                    });
}

CollectivePtr makeAllToAll(DType dtype, int64_t elements, ReplicaGroups groups) {
  const int64_t part = elements / static_cast<int64_t>(groups.front().size()) * sizeOf(dtype);
  return makeCopies(
      "all_to_all", dtype, elements, std::move(groups),
      [part](const std::vector<int32_t>& members, size_t k, std::span<std::byte* const> from, std::byte* to) {
        for (size_t j = 0; j < members.size(); ++j) {
          copyPart(to + static_cast<int64_t>(j) * part,
                   from[static_cast<size_t>(members[j])] + static_cast<int64_t>(k) * part, part);
        }
      });
}

CollectivePtr makePermute(DType dtype, int64_t elements, std::vector<int32_t> sources) {
  const int64_t bytes = elements * sizeOf(dtype);
  std::vector<int32_t> all(sources.size());
  for (size_t r = 0; r < all.size(); ++r) all[r] = static_cast<int32_t>(r);
  return makeCopies("permute", dtype, elements, {std::move(all)},
                    [bytes, sources = std::move(sources)](const std::vector<int32_t>&, size_t k,
                                                          std::span<std::byte* const> from, std::byte* to) {
                      if (sources[k] < 0) {
                        std::fill(to, to + bytes, std::byte{0});
                      } else {
                        copyPart(to, from[static_cast<size_t>(sources[k])], bytes);
                      }
                    });
}

}  // namespace popxl::kernels
