#include "kernels/reduce_fold.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kRowSegment = 8192;    ///< elements of a row that one item folds
constexpr int64_t kColumnSegment = 256;  ///< rows that one vector of sums takes
constexpr int64_t kColumnBlock = 4096;   ///< columns that one item takes
constexpr int64_t kItemElements = kSerialElements / 2;
constexpr int64_t kCompiledTile = 2048;  ///< positions that machine code computes before they are folded

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Whether what is folded lies in memory: tile code reads it there.
bool isStored(const Expr& expr, const std::vector<Layout>& inputs) {
  const Node& n = expr.nodes()[static_cast<size_t>(expr.outputs()[0])];
  return n.prim == Prim::kInput && n.element < 0 &&
         isComputeStorage(inputs[static_cast<size_t>(n.index)].dtype);
}

}  // namespace

DType dtypeOf(VType t) {
  switch (t) {
    case VType::kF32:
      return DType::kFloat32;
    case VType::kF64:
      return DType::kFloat64;
    case VType::kI32:
      return DType::kInt32;
    case VType::kU32:
      return DType::kUInt32;
    case VType::kI64:
      return DType::kInt64;
    case VType::kU64:
      break;
  }
  return DType::kUInt64;
}

/// What one chunk of work folds.
class FoldKernel::Values {
 public:
  /// `invocation` where tile code computes them.
  Values(const FoldKernel& fold, const TileInvocation* invocation, std::byte* const* inputs)
      : size_(fold.size_), inputs_(fold.inputs_), compiled_(fold.compiled_ ? &*fold.compiled_ : nullptr) {
    if (invocation != nullptr) {
      runner_.emplace(*invocation, buffer_);
    } else {
      std::copy_n(inputs, inputs_, operands_.begin());
    }
  }

  /// Dense values of positions [start, start + n), n at most the tile; until the next call.
  const std::byte* at(int64_t start, int64_t n) {
    if (runner_) {
      runner_->run(start, n);
      return runner_->value(0);
    }
    // The output that the code writes has all positions; of these there is memory for a tile.
    operands_[inputs_] = buffer_.bytes - start * size_;
    compiled_->run(operands_.data(), start, start + n);
    return buffer_.bytes;
  }

 private:
  int64_t size_;
  size_t inputs_;
  const jit::Walk* compiled_;
  std::optional<TileRunner> runner_;
  std::array<std::byte*, jit::kMaxSlots> operands_;
  TileBuffer buffer_;
};

FoldKernel::FoldKernel(const Expr& expr, Fold fold, const Shape& space, const std::vector<Layout>& inputs,
                       const std::vector<int64_t>& axes, Backend backend)
    : inputs_(inputs.size()) {
  POPXL_ASSERT(expr.outputs().size() == 1, "{} outputs", expr.outputs().size());
  for (const Node& n : expr.nodes()) POPXL_ASSERT(n.prim != Prim::kPhilox, "random bits in a reduction");
  const VType type = expr.nodes()[static_cast<size_t>(expr.outputs()[0])].type;
  ops_ = &foldOps(fold, type);
  size_ = sizeOf(type);
  std::vector<bool> isReduced(space.size(), false);
  for (const int64_t axis : axes)
    isReduced[static_cast<size_t>(axis)] = space[static_cast<size_t>(axis)] != 1;
  plan(space, isReduced);
  Shape walked;
  for (const int64_t d : order_) walked.push_back(space[static_cast<size_t>(d)]);
  std::vector<TileOperand> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Strides all = inputStrides(expr, i, inputs[i], space);
    TileOperand& operand = operands.emplace_back(TileOperand{inputs[i].dtype, {}});
    for (const int64_t d : order_) operand.strides.push_back(all[static_cast<size_t>(d)]);
  }
  const auto isa = backend == Backend::kTiles ? std::nullopt : jit::chosenIsa();
  if (isa && inputs_ < jit::kMaxSlots && !isStored(expr, inputs)) {
    const TileOperand values{dtypeOf(type), contiguousStrides(walked)};
    compiled_.emplace(*isa, expr, walked, operands, std::span(&values, 1));
    tile_ = kCompiledTile;
  } else {
    tiles_ = compileTiles(expr, walked, operands, {});
    tile_ = tiles_->tile;
  }
}

/// Puts reduced dimensions last, or before the innermost kept ones where these are long enough for vectors.
void FoldKernel::plan(const Shape& space, const std::vector<bool>& isReduced) {
  const auto rank = static_cast<int64_t>(space.size());
  for (int64_t d = 0; d < rank; ++d) {
    (isReduced[static_cast<size_t>(d)] ? reduced_ : outer_) *= space[static_cast<size_t>(d)];
  }
  int64_t trailing = rank;
  int64_t columns = 1;
  while (trailing > 0 && !isReduced[static_cast<size_t>(trailing - 1)]) {
    columns *= space[static_cast<size_t>(--trailing)];
  }
  if (columns < kBlock && (columns == 1 || reduced_ > kShortRow)) {
    trailing = rank;
    columns = 1;
  }
  const int64_t kept = outer_;
  columns_ = columns;
  outer_ = columns == 0 ? 0 : kept / columns;
  segments_ = std::max<int64_t>(1, ceilDiv(reduced_, columns_ == 1 ? kRowSegment : kColumnSegment));
  columnBlocks_ = std::max<int64_t>(1, ceilDiv(columns_, kColumnBlock));
  for (const bool pass : {false, true}) {
    for (int64_t d = 0; d < trailing; ++d) {
      if (isReduced[static_cast<size_t>(d)] == pass) order_.push_back(d);
    }
  }
  for (int64_t d = trailing; d < rank; ++d) order_.push_back(d);
  resultStrides_.assign(space.size(), 0);
  int64_t stride = 1;
  for (int64_t d = rank; d-- > 0;) {
    if (d == trailing - 1) stride = columns_ * segments_;
    if (isReduced[static_cast<size_t>(d)]) continue;
    resultStrides_[static_cast<size_t>(d)] = stride;
    stride *= space[static_cast<size_t>(d)];
  }
}

void FoldKernel::run(std::byte* const* inputs, std::byte* partials) const {
  if (outputs() == 0) return;
  if (reduced_ == 0) return ops_->fill(partials, FoldKernel::partials());
  UniformBuffer uniforms;
  std::optional<TileInvocation> invocation;
  if (tiles_) invocation.emplace(*tiles_, inputs, uniforms);
  // Items are (outer, segment) and, for columns, blocks of them; short ones share a chunk.
  const int64_t items = outer_ * segments_ * columnBlocks_;
  const int64_t perItem = columns_ == 1
                              ? std::min(reduced_, kRowSegment)
                              : std::min(columns_, kColumnBlock) * std::min(reduced_, kColumnSegment);
  const bool serial = outputs() * reduced_ <= kSerialElements;
  const int64_t perChunk = serial ? items : std::max<int64_t>(1, kItemElements / perItem);
  parallelFor(ceilDiv(items, perChunk), [&](int64_t chunk) {
    Values values(*this, invocation ? &*invocation : nullptr, inputs);
    const int64_t begin = chunk * perChunk, end = std::min(items, begin + perChunk);
    if (columns_ > 1) {
      for (int64_t item = begin; item < end; ++item) foldColumns(values, partials, item);
    } else if (reduced_ <= kShortRow) {
      foldShortRows(values, partials, begin, end);
    } else {
      foldRows(values, partials, begin, end);
    }
  });
  if (segments_ > 1) combine(partials);
}

void FoldKernel::foldShortRows(Values& values, std::byte* partials, int64_t begin, int64_t end) const {
  const int64_t tile = std::max(tile_, reduced_);
  const int64_t rows = tile / reduced_;
  for (int64_t row = begin; row < end; row += rows) {
    const int64_t count = std::min(rows, end - row);
    if (count * reduced_ <= tile_) {
      const std::byte* x = values.at(row * reduced_, count * reduced_);
      ops_->shortRows(x, count, reduced_, partials + row * size_, 1);
      continue;
    }
    // Tiles shorter than a row: gather the row first.
    alignas(64) std::byte whole[kShortRow * 8];
    for (int64_t i = 0; i < reduced_; i += tile_) {
      const int64_t n = std::min(tile_, reduced_ - i);
      std::copy_n(values.at(row * reduced_ + i, n), n * size_, whole + i * size_);
    }
    ops_->shortRows(whole, 1, reduced_, partials + row * size_, 1);
  }
}

void FoldKernel::foldRows(Values& values, std::byte* partials, int64_t begin, int64_t end) const {
  // As many whole rows a tile as fit; otherwise tiles of one segment after the other.
  const int64_t rows = segments_ == 1 ? tile_ / reduced_ : 0;
  if (rows > 0) {
    for (int64_t row = begin; row < end; row += rows) {
      const int64_t count = std::min(rows, end - row);
      ops_->rows(values.at(row * reduced_, count * reduced_), count, reduced_, partials + row * size_);
    }
    return;
  }
  alignas(64) std::byte lanes[kLaneBytes];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t row = item / segments_;
    const int64_t first = item % segments_ * kRowSegment;
    const int64_t last = std::min(reduced_, first + kRowSegment);
    ops_->fill(lanes, kLaneBytes / size_);
    for (int64_t i = first; i < last; i += tile_) {
      const int64_t n = std::min(tile_, last - i);
      ops_->row(values.at(row * reduced_ + i, n), n, lanes, i - first);
    }
    ops_->lanes(lanes, partials + item * size_);
  }
}

void FoldKernel::foldColumns(Values& values, std::byte* partials, int64_t item) const {
  const int64_t block = item % columnBlocks_;
  const int64_t vector = item / columnBlocks_;  // (outer, segment)
  const int64_t outer = vector / segments_;
  const int64_t firstRow = vector % segments_ * kColumnSegment;
  const int64_t lastRow = std::min(reduced_, firstRow + kColumnSegment);
  const int64_t firstColumn = block * kColumnBlock;
  const int64_t lastColumn = std::min(columns_, firstColumn + kColumnBlock);
  std::byte* sums = partials + vector * columns_ * size_;
  ops_->fill(sums + firstColumn * size_, lastColumn - firstColumn);
  const int64_t rows = tile_ / columns_;
  if (rows > 1) {
    for (int64_t row = firstRow; row < lastRow; row += rows) {
      const int64_t count = std::min(rows, lastRow - row);
      const std::byte* x = values.at((outer * reduced_ + row) * columns_, count * columns_);
      ops_->columns(x, count, columns_, sums);
    }
    return;
  }
  for (int64_t row = firstRow; row < lastRow; ++row) {
    for (int64_t column = firstColumn; column < lastColumn; column += tile_) {
      const int64_t n = std::min(tile_, lastColumn - column);
      const std::byte* x = values.at((outer * reduced_ + row) * columns_ + column, n);
      ops_->columns(x, 1, n, sums + column * size_);
    }
  }
}

/// Segments in pairs: 0 with 1, 2 with 3, ...; then 0 with 2, ...
void FoldKernel::combine(std::byte* partials) const {
  const auto fold = [&](int64_t outer, int64_t first, int64_t n) {
    std::byte* base = partials + (outer * segments_ * columns_ + first) * size_;
    const int64_t step = columns_ * size_;
    for (int64_t distance = 1; distance < segments_; distance *= 2) {
      for (int64_t s = 0; s + distance < segments_; s += 2 * distance) {
        ops_->columns(base + (s + distance) * step, 1, n, base + s * step);
      }
    }
  };
  const int64_t items = outer_ * columnBlocks_;
  const int64_t perItem = std::min(columns_, kColumnBlock) * segments_;
  const int64_t perChunk = std::max<int64_t>(1, kItemElements / perItem);
  parallelFor(ceilDiv(items, perChunk), [&](int64_t chunk) {
    const int64_t end = std::min(items, (chunk + 1) * perChunk);
    for (int64_t item = chunk * perChunk; item < end; ++item) {
      const int64_t first = item % columnBlocks_ * kColumnBlock;
      fold(item / columnBlocks_, first, std::min(columns_ - first, kColumnBlock));
    }
  });
}

}  // namespace popxl::kernels
