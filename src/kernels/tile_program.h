#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/shape.h"
#include "kernels/expr.h"
#include "kernels/tile_ops.h"
#include "kernels/tile_walk.h"

namespace popxl::kernels {

/// An operand laid over the space: one stride a dimension of the space, 0 where it is broadcast.
struct TileOperand {
  DType dtype;
  Strides strides;
};

/// The strides with which `expr` reads its input `index` over the space; zeros when it reads single elements
/// only, whose operand may have any shape.
Strides inputStrides(const Expr& expr, size_t index, const Layout& layout, const Shape& space);

/// An Expr compiled for one space: steps over tiles of a few hundred positions that stay in L1.
///
/// Every value has a slot, a pointer in a small table. A slot points to a constant (in the program), to a
/// uniform (one block, computed once a run), to a register (a tile in the caller's stack buffer, shared by
/// values whose lives do not overlap), or straight into an operand's memory.
struct TileProgram {
  struct Load {
    int32_t operand;
    uint32_t slot;
    LoadFn fn;
    Walk walk;
    int64_t elementBytes, valueBytes;
    bool inPlace;  ///< may be read where it is, if contiguous in a tile
    bool once;     ///< the same in every tile, so loaded in the first only
  };
  struct Uniform {
    int32_t operand;
    int64_t element;
    uint32_t slot;
    LoadFn fn;
    int64_t elementBytes;
  };
  struct Store {
    uint32_t slot;
    StoreFn fn;
    Walk walk;
    int64_t elementBytes, valueBytes;
    bool inPlace = false;            ///< its value may be computed where the output is,
    std::vector<int32_t> readLater;  ///< unless its memory is one of these inputs', which are read afterwards
  };
  struct Instruction {
    TileStep step;
    int32_t load = -1;  ///< index of a Load, or a step
  };

  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };

  std::vector<CacheLine> constants;      ///< one or two lines a constant
  std::vector<int64_t> constantOffsets;  ///< in bytes; slots 0 ... are constants
  std::vector<int64_t> uniformOffsets;   ///< then uniforms
  std::vector<int32_t> registers;        ///< then values in registers
  int32_t inputCount = 0;
  int32_t registerCount = 0;
  int64_t registerBytes = 0;
  int64_t tile = kBlock;  ///< positions
  int64_t positions = 0;
  std::vector<Load> loads;
  std::vector<Uniform> uniformLoads;
  std::vector<TileStep> prologue;
  std::vector<Instruction> body;
  std::vector<Store> stores;
  std::vector<uint32_t> outputSlots;  ///< of expr.outputs(), dense tiles

  size_t slotCount() const { return constantOffsets.size() + uniformOffsets.size() + registers.size(); }
};

/// `outputs` may be empty: then the values are read from outputSlots after each tile.
TileProgram compileTiles(const Expr& expr, const Shape& space, const std::vector<TileOperand>& inputs,
                         const std::vector<TileOperand>& outputs);

/// Stack space of one running chunk (slots, then registers), and of the uniforms of a run. An Expr that needs
/// more is an assertion: about 4000 values, 500 of them alive at once.
inline constexpr int64_t kMaxSlots = 4096;
inline constexpr int64_t kMaxConstants = 1024;
inline constexpr int64_t kRegisterBytes = 64 * 1024;
inline constexpr int64_t kTileBufferBytes = kMaxSlots * 8 + kRegisterBytes;
inline constexpr int64_t kUniformBufferBytes = 16 * 1024;
struct alignas(64) TileBuffer {
  std::byte bytes[kTileBufferBytes];
};
struct alignas(64) UniformBuffer {
  std::byte bytes[kUniformBufferBytes];
};

/// What all chunks of one run share: operands, uniforms and which outputs are computed in place.
class TileInvocation {
 public:
  /// Operands: inputs, then as many outputs as the program stores.
  TileInvocation(const TileProgram& program, std::byte* const* operands, UniformBuffer& uniforms);

  const TileProgram& program() const { return program_; }
  std::byte* operand(int32_t i) const { return operands_[i]; }
  std::byte* output(size_t i) const { return operands_[inputs_ + i]; }
  bool storesInPlace(size_t i) const { return (inPlace_ >> i & 1) != 0; }
  std::byte* uniforms() const { return uniforms_.bytes; }

 private:
  const TileProgram& program_;
  std::byte* const* operands_;
  size_t inputs_;
  uint64_t inPlace_ = 0;
  UniformBuffer& uniforms_;
};

/// One chunk: runs tiles in a buffer of its own.
class TileRunner {
 public:
  TileRunner(const TileInvocation& invocation, TileBuffer& buffer);

  /// Positions [start, start + n), n at most program().tile; operands are used in place where n is a multiple
  /// of kBlock. Reductions read value() afterwards: n elements.
  void run(int64_t start, int64_t n);
  const std::byte* value(size_t output) const { return slots_[invocation_.program().outputSlots[output]]; }

 private:
  void load(const TileProgram::Load& load, int64_t start, int64_t n, bool inPlace);
  std::byte* home(uint32_t slot) const;

  const TileInvocation& invocation_;
  std::byte** slots_;
  std::byte* registers_;
  bool first_ = true;
};

}  // namespace popxl::kernels
