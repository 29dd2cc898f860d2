#include "kernels/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/collective_parts.h"

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

/// Stores a row as elements of a result; as copyPart with `stream`.
template <typename T>
void storeRow(const Wide<T>* from, int64_t first, int64_t n, std::byte* to, bool stream) {
  T* values = reinterpret_cast<T*>(to) + first;
  if constexpr (std::is_same_v<T, HalfBits>) {
    simd::moveOps().floatToHalf(from, reinterpret_cast<uint16_t*>(values), n);
  } else if constexpr (std::is_same_v<T, Wide<T>>) {
    if (values == from) return;  // of a group of one, in place
    copyPart(reinterpret_cast<std::byte*>(values), reinterpret_cast<const std::byte*>(from),
             n * int64_t{sizeof(T)}, stream);
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
void combineRow(const W* a, const W* b, int64_t n, W* out, const F& f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

/// The reduction of a and b, which may lie in `out`. NaN wins over every number.
template <typename W>
void combine(Reduction reduction, const W* a, const W* b, int64_t n, W* out) {
  switch (reduction) {
    case Reduction::kAdd:
    case Reduction::kMean:
    case Reduction::kSquareAdd:
      return combineRow(a, b, n, out, [](W x, W y) { return sumOf(x, y); });
    case Reduction::kMul:
      return combineRow(a, b, n, out, [](W x, W y) { return productOf(x, y); });
    case Reduction::kMin:
      return combineRow(a, b, n, out, [](W x, W y) { return x < y || isNaN(x) ? x : y; });
    case Reduction::kMax:
      return combineRow(a, b, n, out, [](W x, W y) { return y < x || isNaN(x) ? x : y; });
    case Reduction::kAnd:
      return combineRow(a, b, n, out, [](W x, W y) { return static_cast<W>(x != 0 && y != 0); });
    case Reduction::kOr:
      return combineRow(a, b, n, out, [](W x, W y) { return static_cast<W>(x != 0 || y != 0); });
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

/// Whether an operand's values count as they are stored.
template <typename T>
bool countsAsStored(Reduction reduction) {
  return std::is_same_v<T, Wide<T>> && reduction != Reduction::kSquareAdd && reduction != Reduction::kAnd &&
         reduction != Reduction::kOr;
}

/// Elements [first, first + n) of the members' reduction: in `out`, or where an operand has them. `scratch`
/// holds a row for each level below.
template <typename T>
const Wide<T>* reduceRow(Reduction reduction, std::span<const int32_t> members,
                         std::span<std::byte* const> from, int64_t first, int64_t n, Wide<T>* out,
                         Wide<T>* scratch) {
  if (members.size() == 1) {
    const std::byte* operand = from[static_cast<size_t>(members[0])];
    if (countsAsStored<T>(reduction)) return reinterpret_cast<const Wide<T>*>(operand) + first;
    loadRow<T>(operand, first, n, out);
    enter(reduction, out, n);
    return out;
  }
  const size_t half = std::bit_floor(members.size() - 1);
  const Wide<T>* a = reduceRow<T>(reduction, members.first(half), from, first, n, out, scratch);
  const Wide<T>* b = reduceRow<T>(reduction, members.subspan(half), from, first, n, scratch, scratch + kRow);
  combine(reduction, a, b, n, out);
  return out;
}

/// f(first element, values, number of them) for the rows of an item's reduction.
template <typename T, typename F>
void reduceItem(const AllReduce& what, std::span<const int32_t> members, std::span<std::byte* const> from,
                int64_t first, int64_t end, const F& f) {
  Wide<T> rows[kRow * kMaxDepth];
  for (int64_t at = first; at < end; at += kRow) {
    const int64_t n = std::min(kRow, end - at);
    const Wide<T>* values = reduceRow<T>(what.reduction, members, from, at, n, rows, rows + kRow);
    if (what.reduction == Reduction::kMean) {
      const auto all = what.divisor != 0 ? what.divisor : static_cast<int64_t>(members.size());
      const auto size = static_cast<Wide<T>>(all);
      for (int64_t i = 0; i < n; ++i) rows[i] = values[i] / size;
      values = rows;
    }
    f(at, values, n);
  }
}

/// Reductions to all members, or to each its share.
template <typename T>
class Reduce final : public Collective {
 public:
  Reduce(AllReduce what, bool scatters) : what_(std::move(what)), scatters_(scatters) {
    for (const auto& members : what_.groups)
      POPXL_ASSERT(members.size() < size_t{1} << (kMaxDepth - 2), "too many");
  }

  void run(std::span<std::byte* const> from, std::span<std::byte* const> to) const override {
    const auto size = static_cast<int64_t>(what_.groups.front().size()), shares = scatters_ ? size : 1;
    const int64_t share = ceilDiv(what_.elements, shares), items = ceilDiv(share, kItem);
    const int64_t replicas = static_cast<int64_t>(to.size());
    const bool stream = (what_.elements + share) / 2 * int64_t{sizeof(T)} * replicas > kStreamBytes;
    const int64_t all = items * shares * static_cast<int64_t>(what_.groups.size());
    forItems(all, what_.elements * static_cast<int64_t>(from.size()), [&](int64_t i) {
      const auto& members = what_.groups[static_cast<size_t>(i / items / shares)];
      const int64_t begin = i / items % shares * share, end = std::min(begin + share, what_.elements);
      const int64_t first = begin + i % items * kItem, last = std::min(first + kItem, end);
      std::byte* own =
          scatters_ ? to[static_cast<size_t>(members[static_cast<size_t>(begin / share)])] : nullptr;
      if (own == nullptr && (scatters_ || !isWanted(members, to))) return;
      reduceItem<T>(what_, members, from, first, last, [&](int64_t at, const Wide<T>* row, int64_t n) {
        if (scatters_) return storeRow<T>(row, at - begin, n, own, stream);
        for (const int32_t m : members) {
          std::byte* result = to[static_cast<size_t>(m)];
          if (result != nullptr) storeRow<T>(row, at, n, result, stream);
        }
      });
      if (stream) simd::flushStream();
    });
    if (scatters_) padWithZeros(to);
  }
  bool worksInPlace() const override { return !scatters_; }
  const AllReduce* allReduce() const override { return scatters_ ? nullptr : &what_; }
  std::vector<OperandPart> reads(int32_t replica) const override {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    const auto [members, k] = placeOf(replica, what_.groups);
    const int64_t part =
        scatters_ ? ceilDiv(what_.elements, static_cast<int64_t>(members->size())) : what_.elements;
    const int64_t begin = scatters_ ? std::min(what_.elements, k * part) : 0;
    std::vector<OperandPart> out;
    for (const int32_t m : *members)
      out.push_back({m, begin * kSize, std::min(what_.elements, begin + part) * kSize});
    return out;
  }
  std::string describe() const override {
    return fmt::format("{} {} {} {} over {} group(s) of {}", scatters_ ? "reduce_scatter" : "all_reduce",
                       nameOf(what_.reduction), popxl::nameOf(what_.dtype), what_.elements,
                       what_.groups.size(), what_.groups.front().size());
  }

 private:
  static bool isWanted(std::span<const int32_t> members, std::span<std::byte* const> to) {
    return std::any_of(members.begin(), members.end(),
                       [&](int32_t m) { return to[static_cast<size_t>(m)] != nullptr; });
  }

  void padWithZeros(std::span<std::byte* const> to) const {
    for (const auto& members : what_.groups) {
      const int64_t part = ceilDiv(what_.elements, static_cast<int64_t>(members.size()));
      for (size_t k = 0; k < members.size(); ++k) {
        const int64_t present = std::clamp<int64_t>(what_.elements - static_cast<int64_t>(k) * part, 0, part);
        T* values = reinterpret_cast<T*>(to[static_cast<size_t>(members[k])]);
        if (values == nullptr) continue;
        std::fill(values + present, values + part, T{});
      }
    }
  }

  AllReduce what_;
  bool scatters_;
};

CollectivePtr makeReduction(AllReduce what, bool scatters) {
  const auto make = [&]<typename T>(T) -> CollectivePtr {
    return std::make_unique<Reduce<T>>(std::move(what), scatters);
  };
  switch (what.dtype) {
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
      POPXL_ASSERT(false, "a reduction of {}", popxl::nameOf(what.dtype));
  }
}

}  // namespace

CollectiveReduction collectiveReduction(std::string_view name) {
  std::string known;
  for (const auto& [own, reduction] : kReductions) {
    if (own == name) return reduction;
    known += (known.empty() ? "" : ", ") + std::string(own);
  }
  fail(ErrorKind::kValue, "`{}` is no reduction of replicas; use one of: {}", name, known);
}

CollectivePtr makeAllReduce(AllReduce what) { return makeReduction(std::move(what), false); }

bool canStage(const AllReduce& what) {
  const bool exact = !isFloat(what.dtype) && what.reduction != Reduction::kMean;  // integers wrap
  return exact || what.dtype == DType::kFloat32 || what.dtype == DType::kFloat64;
}

AllReduce firstStage(const AllReduce& what, ReplicaGroups branches) {
  const Reduction reduction = what.reduction == Reduction::kMean ? Reduction::kAdd : what.reduction;
  return {reduction, what.dtype, what.elements, std::move(branches)};
}

AllReduce secondStage(const AllReduce& what) {
  AllReduce stage = what;
  if (what.reduction == Reduction::kSquareAdd) stage.reduction = Reduction::kAdd;
  if (what.divisor == 0) stage.divisor = static_cast<int64_t>(what.groups.front().size());
  return stage;
}

CollectivePtr makeReduceScatter(CollectiveReduction reduction, DType dtype, int64_t elements,
                                ReplicaGroups groups) {
  return makeReduction({reduction, dtype, elements, std::move(groups)}, true);
}

}  // namespace popxl::kernels
