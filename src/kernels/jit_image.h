#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/jit_code.h"

namespace popxl::kernels::jit {

/// An address that machine code takes from its table: of a step, or of the function that carries it out, of
/// `index` of Image::calls; of the function that loads or stores the type of slot `index`.
struct Address {
  enum class Kind : uint8_t { kStep, kStepFunction, kLoad, kStore };
  Kind kind;
  uint32_t index;
};

/// Machine code that can be stored and run by another process: it has no addresses but in one table, and what
/// these are is told by name.
struct Image {
  Isa isa = {};
  std::vector<Slot> slots;  ///< as those of Code
  size_t outputs = 0;
  std::vector<Call> calls;
  std::string code;
  uint64_t entry = 0, table = 0;  ///< offsets in `code`
  std::vector<Address> outside;   ///< what the table has

  std::string encode() const;
  /// Nothing where the bytes are no image: every length, number and offset is checked, not the instructions.
  static std::optional<Image> decode(std::string_view bytes);
  /// Writes the addresses as they are in this process into a copy of `code`. `steps`: of the calls.
  void fillTable(std::string& copy, std::span<const TileStep> steps) const;
};

/// The step of a call. Error(InternalError) for one that has no tile code.
TileStep stepOf(const Call& call);

}  // namespace popxl::kernels::jit
