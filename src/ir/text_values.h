#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/session_options.h"
#include "ir/types.h"

namespace popxl::ir {

// Pieces of the text form that printing and parsing share.

/// `text` in double quotes; control bytes, quotes and bytes that are no UTF-8 are escaped.
std::string quoted(std::string_view text);
/// '%' or '@' and the name, quoted when it is not [A-Za-z0-9_][A-Za-z0-9_./]*; a graph's may end in "(n)".
std::string tensorText(std::string_view name);
std::string graphText(std::string_view id);
bool isNameChar(char c);

std::string typeText(const TensorType& type);
/// The value of an attribute; equal texts mean equal bits.
std::string attrText(const Attr& value);
std::string locText(const Loc& loc);
std::string_view tileSetText(TileSet t);
std::string_view contextText(ExecutionContext c);

/// The shortest text that floatFromText turns into the same bits; NaNs other than the default one show their
/// bits.
std::string floatText(double value);
std::optional<double> floatFromText(std::string_view text);

std::string base64(std::span<const std::byte> bytes);
/// Nothing when `text` is not base64.
std::optional<std::vector<std::byte>> base64Decode(std::string_view text);

/// One element of tensor data; nothing when there is no text with the same bits (NaNs, complex numbers).
std::optional<std::string> elementText(DType dtype, const std::byte* element);
/// Writes sizeOf(dtype) bytes. False when `text` is no value of the type.
bool elementFromText(DType dtype, std::string_view text, std::byte* element);

/// The fields of SessionOptions by name.
struct OptionDef {
  using Member =
      std::variant<bool SessionOptions::*, int64_t SessionOptions::*, std::string SessionOptions::*,
                   VirtualGraphMode SessionOptions::*, std::set<std::string> SessionOptions::*,
                   std::map<std::string, std::string> SessionOptions::*>;
  std::string_view name;
  Member member;
};
std::span<const OptionDef> optionDefs();
std::span<const std::string_view> virtualGraphModes();  ///< names in the order of the enum

}  // namespace popxl::ir
