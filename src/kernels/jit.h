#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/jit_image.h"
#include "kernels/jit_lower.h"

namespace popxl::kernels::jit {

/// What machine code is called with: `rows` rows of `columns` positions, both at least 1.
struct Block {
  std::byte* const* pointers;  ///< of every slot: its first element in the block
  const int64_t* rowStrides;   ///< bytes, of every slot
  const int64_t* strides;      ///< elements along a row, of every slot; read for kStrided ones only
  int64_t rows = 1, columns = 1;
  uint64_t position = 0;     ///< of the first element, for random bits
  int64_t rowPositions = 0;  ///< from one row to the next
};

/// The instruction set to compile for, that of the tile code; nothing on another architecture, without AVX2,
/// or with POPXL_JIT=0 in the environment.
std::optional<Isa> chosenIsa();

/// A group as machine code. Immutable; any number of threads run it at once.
class Function {
 public:
  ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  std::span<const Slot> slots() const { return image_.slots; }
  /// Primitives for which it calls tile code.
  size_t calls() const { return image_.calls.size(); }
  void run(const Block& block) const;

 private:
  friend class Cache;
  using Entry = void (*)(const Block*);
  Function(Image image, std::string key);
  void runTail(const Block& block, int64_t done) const;

  const Image image_;
  std::string key_;              // of the cache
  std::vector<TileStep> steps_;  // of the calls; the code has their addresses
  std::byte* base_ = nullptr;
  Entry entry_ = nullptr;
};

/// Compiles, finds an equal group that some program still holds, or takes the code from the ResultStore of
/// this thread's compilation. Slots are those of lowerExpr.
std::shared_ptr<const Function> compile(Isa isa, const Expr& expr, std::span<const Operand> inputs,
                                        std::span<const Operand> outputs);

/// More slots than any group has: what callers keep on the stack.
inline constexpr size_t kMaxSlots = 128;

}  // namespace popxl::kernels::jit
