#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/live.h"
#include "compile/channels_last.h"
#include "ir/graph_map.h"
#include "ir/ir.h"

namespace popxl::compile {

/// A piece of memory of one graph's code.
struct Buffer {
  enum class Kind : uint8_t {
    kLocal,
    kVariable,
    kConstant,
    kPrepared,
    kPreparedShared,
    kArgumentIn,
    kArgumentOut
  };
  Kind kind = Kind::kLocal;
  int64_t bytes = 0;
  int32_t argument = 0;              ///< kArgumentIn, kArgumentOut
  const ir::Tensor* root = nullptr;  ///< the tensor that it was made for; null: scratch memory or a frame
  int32_t frameOf = -1;              ///< the code whose frame it is
  int64_t offset = 0;                ///< kPrepared, kPreparedShared: bytes from the first variable
};

/// Where a tensor lies.
struct Storage {
  int32_t buffer = -1;
  Layout layout;
  int64_t elementOffset = 0;

  bool operator==(const Storage&) const = default;
  int64_t byteOffset() const { return elementOffset * sizeOf(layout.dtype); }
};

/// Decides for every live tensor of a graph, given the order of its ops, which memory it is: its own, that of
/// the tensor it is an in-place result or a view of. A view (reshape, transpose, slice, ...) shares memory
/// when nothing writes that memory while the view is still read; else it is a copy.
class StorageMap {
 public:
  StorageMap(const ir::Graph& graph, const std::vector<ir::Op*>& order, const analysis::Liveness& liveness,
             const ChannelsLast& channelsLast);

  const Storage& at(const ir::Tensor* t) const;
  bool has(const ir::Tensor* t) const { return storages_[t].buffer >= 0; }
  /// Whether this op moves no data: a view, or an op that passes an operand on as it is.
  bool isFree(const ir::Op* op) const { return free_[op]; }
  /// The operand whose memory the result of an op may be though the op does not work in place; -1: none.
  int32_t sharedOperand(const ir::Op& op) const;
  /// Puts a tensor elsewhere.
  void move(const ir::Tensor* t, Storage to) { storages_[t] = std::move(to); }
  /// The op that alone reads a tensor, once; null when there is another or the graph returns it.
  const ir::Op* onlyUse(const ir::Tensor* t) const;
  std::vector<Buffer>& buffers() { return buffers_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  int32_t addBuffer(Buffer b);

 private:
  void place(const ir::Op& op, int32_t position);
  bool placeShared(const ir::Op& op, int32_t position);
  void placeOwn(const ir::Tensor* t);
  const Storage& storageOf(const ir::Tensor* t);
  void findWrites();
  void findLastUses();
  bool isWrittenBetween(const ir::Tensor* t, int32_t after, int32_t upTo) const;

  // storage_results.cpp
  bool neverWritten(const ir::Tensor* t) const;
  Layout layoutForViews(const ir::Tensor* result) const;
  bool findPiece(const ir::Op& join, const ir::Tensor*& t, Layout& layout) const;
  void placePieces(const ir::Op& join);

  const ir::Graph& graph_;
  const std::vector<ir::Op*>& order_;
  const analysis::Liveness& liveness_;
  const ChannelsLast& channelsLast_;
  std::vector<Buffer> buffers_;
  ir::TensorMap<Storage> storages_;
  ir::OpMap<bool> free_;
  ir::OpMap<int32_t> passed_;       // the operand that an elementwise op passes on, or -1
  ir::TensorMap<int32_t> lastUse_;  // through views; -1: none
  ir::TensorMap<int32_t> groupOf_;  // tensors that may share memory; -1: shares with none
  std::unordered_map<int32_t, std::vector<int32_t>> writes_;  // positions of writes, by group
};

}  // namespace popxl::compile
