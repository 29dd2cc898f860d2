#include "ir/text_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "ir/graph.h"

namespace popxl::ir {
namespace {

/// Length of the UTF-8 sequence at the front, 0 when it is none.
size_t utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80U) return 1;
  if (first >= 0xC2U && first < 0xE0U) return follows(1) ? 2 : 0;
  if (first >= 0xE0U && first < 0xF0U) {
    const bool overlong = first == 0xE0U && byte(1) < 0xA0U;
    const bool surrogate = first == 0xEDU && byte(1) >= 0xA0U;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0U && first < 0xF5U) {
    const bool outside = (first == 0xF0U && byte(1) < 0x90U) || (first == 0xF4U && byte(1) >= 0x90U);
    return follows(1) && follows(2) && follows(3) && !outside ? 4 : 0;
  }
  return 0;
}

bool isBareName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.front() != '/' &&
         std::all_of(name.begin(), name.end(), isNameChar);
}

template <typename T>
bool readNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename T>
bool storeInt(std::string_view text, std::byte* element) {
  T value{};
  if (!readNumber(text, value)) return false;
  std::memcpy(element, &value, sizeof value);
  return true;
}

template <typename T>
std::string intText(const std::byte* element) {
  T value{};
  std::memcpy(&value, element, sizeof value);
  return fmt::format("{}", static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
}

/// A float as text, always with a point, an exponent or a word, so that it never looks like an integer.
template <typename T>
std::string pointed(T value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

bool readFloat(DType dtype, std::string_view text, std::byte* element) {
  if (dtype == DType::kFloat64) {
    const auto value = floatFromText(text);
    if (value) std::memcpy(element, &*value, sizeof *value);
    return value.has_value();
  }
  float value = 0;
  if (!readNumber(text, value)) {
    // Out of float's range, or a NaN with bits: only what double also refuses is no number.
    const auto wide = floatFromText(text);
    if (!wide) return false;
    value = static_cast<float>(*wide);
  }
  if (dtype == DType::kFloat32) {
    std::memcpy(element, &value, sizeof value);
  } else if (dtype == DType::kFloat16) {
    const uint16_t bits = floatToHalf(value);
    std::memcpy(element, &bits, sizeof bits);
  } else {
    const uint8_t bits = floatToFloat8(value, dtype, true);
    std::memcpy(element, &bits, sizeof bits);
  }
  return true;
}

float narrowFloat(DType dtype, const std::byte* element) {
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  if (dtype == DType::kFloat16) {
    uint16_t bits = 0;
    std::memcpy(&bits, element, sizeof bits);
    return halfToFloat(bits);
  }
  return float8ToFloat(static_cast<uint8_t>(*element), dtype);
}

std::string rawElementText(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kInt8:
      return intText<int8_t>(element);
    case DType::kInt16:
      return intText<int16_t>(element);
    case DType::kInt32:
      return intText<int32_t>(element);
    case DType::kInt64:
      return intText<int64_t>(element);
    case DType::kUInt8:
      return intText<uint8_t>(element);
    case DType::kUInt16:
      return intText<uint16_t>(element);
    case DType::kUInt32:
      return intText<uint32_t>(element);
    case DType::kUInt64:
      return intText<uint64_t>(element);
    case DType::kBool:
      return *element == std::byte{0} ? "false" : "true";
    case DType::kComplex64:
    case DType::kComplex128:
      return "";
    case DType::kFloat64: {
      double value = 0;
      std::memcpy(&value, element, sizeof value);
      return floatText(value);
    }
    default:
      return pointed(narrowFloat(dtype, element));
  }
}

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const size_t length = utf8Length(text);
    if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20U || c == 0x7FU || length == 0) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + '"';
}

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/';
}

std::string tensorText(std::string_view name) {
  return '%' + (isBareName(name) ? std::string(name) : quoted(name));
}

std::string graphText(std::string_view id) {
  if (id.empty()) return "@main";
  std::string_view stem = id;
  if (const size_t open = id.rfind('(');
      open != std::string_view::npos && id.size() - open > 2 && id.back() == ')') {
    const std::string_view number = id.substr(open + 1, id.size() - open - 2);
    if (std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
      stem = id.substr(0, open);
  }
  return '@' + (isBareName(stem) && id != "main" ? std::string(id) : quoted(id));
}

std::string typeText(const TensorType& type) {
  std::string text = fmt::format("{} {}", nameOf(type.dtype), toString(type.shape));
  if (!type.metaShape.empty()) text += fmt::format(" meta {}", toString(type.metaShape));
  return text;
}

std::string attrText(const Attr& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return floatText(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(DType v) const { return std::string(nameOf(v)); }
    std::string operator()(const Graph* v) const { return graphText(v->id()); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return fmt::format("[{}]", fmt::join(v, ", "));
    }
    std::string operator()(const std::vector<double>& v) const {
      std::string out;
      for (const double x : v) out += (out.empty() ? "" : ", ") + floatText(x);
      return '[' + out + ']';
    }
  };
  return std::visit(Visitor{}, value);
}

std::string locText(const Loc& loc) {
  std::string text = fmt::format("loc({}:{}", quoted(*loc.file), loc.line);
  if (loc.function != nullptr) text += fmt::format(" in {}", quoted(*loc.function));
  return text + ')';
}

std::string_view tileSetText(TileSet t) {
  constexpr std::array<std::string_view, 3> kNames{"undefined", "compute", "io"};
  return kNames[static_cast<size_t>(t)];
}

std::string_view contextText(ExecutionContext c) {
  constexpr std::array<std::string_view, 4> kNames{"weights_from_host", "normal", "accumulate_outer",
                                                   "weights_to_host"};
  return kNames[static_cast<size_t>(c)];
}

std::string floatText(double value) {
  if (!std::isnan(value)) return pointed(value);
  const auto bits = std::bit_cast<uint64_t>(value);
  if (bits == std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN())) return "nan";
  return fmt::format("nan(0x{:016x})", bits);
}

std::optional<double> floatFromText(std::string_view text) {
  constexpr std::string_view kNanBits = "nan(0x";
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text.starts_with(kNanBits) && text.ends_with(')')) {
    uint64_t bits = 0;
    const std::string_view digits = text.substr(kNanBits.size(), text.size() - kNanBits.size() - 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    const auto value = std::bit_cast<double>(bits);
    if (error != std::errc() || end != digits.data() + digits.size() || !std::isnan(value))
      return std::nullopt;
    return value;
  }
  double value = 0;
  if (!readNumber(text, value)) return std::nullopt;
  return value;
}

std::string base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = (word << 8) | (k < n ? static_cast<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kBase64[(word >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> base64Decode(std::string_view text) {
  static const auto kValues = [] {
    std::array<int32_t, 256> values{};
    values.fill(-1);
    for (size_t i = 0; i < kBase64.size(); ++i)
      values[static_cast<unsigned char>(kBase64[i])] = static_cast<int32_t>(i);
    return values;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') text.remove_suffix(1), ++padding;
  std::vector<std::byte> out;
  out.reserve(text.size() * 3 / 4);
  uint32_t word = 0, bits = 0;
  for (const char c : text) {
    const int32_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    word = (word << 6) | static_cast<uint32_t>(value);
    bits += 6;
    if (bits >= 8) out.push_back(static_cast<std::byte>((word >> (bits -= 8)) & 255));
  }
  // Left-over bits that are not zero would not print as they were read.
  if ((word & ((1U << bits) - 1)) != 0) return std::nullopt;
  return out;
}

std::optional<std::string> elementText(DType dtype, const std::byte* element) {
  std::string text = rawElementText(dtype, element);
  std::array<std::byte, 16> back{};
  if (!elementFromText(dtype, text, back.data())) return std::nullopt;
  if (std::memcmp(back.data(), element, static_cast<size_t>(sizeOf(dtype))) != 0) return std::nullopt;
  return text;
}

bool elementFromText(DType dtype, std::string_view text, std::byte* element) {
  switch (dtype) {
    case DType::kInt8:
      return storeInt<int8_t>(text, element);
    case DType::kInt16:
      return storeInt<int16_t>(text, element);
    case DType::kInt32:
      return storeInt<int32_t>(text, element);
    case DType::kInt64:
      return storeInt<int64_t>(text, element);
    case DType::kUInt8:
      return storeInt<uint8_t>(text, element);
    case DType::kUInt16:
      return storeInt<uint16_t>(text, element);
    case DType::kUInt32:
      return storeInt<uint32_t>(text, element);
    case DType::kUInt64:
      return storeInt<uint64_t>(text, element);
    case DType::kBool:
      *element = std::byte{text == "true"};
      return text == "true" || text == "false";
    case DType::kComplex64:
    case DType::kComplex128:
      return false;
    default:
      return readFloat(dtype, text, element);
  }
}

std::span<const OptionDef> optionDefs() {
  using O = SessionOptions;
  static const std::array kDefs{
      OptionDef{"enableInplaceAmbiguityChecking", &O::enableInplaceAmbiguityChecking},
      OptionDef{"virtualGraphMode", &O::virtualGraphMode},
      OptionDef{"useHostCopyOps", &O::useHostCopyOps},
      OptionDef{"aliasZeroCopy", &O::aliasZeroCopy},
      OptionDef{"enableExplicitMainLoops", &O::enableExplicitMainLoops},
      OptionDef{"explicitRecomputation", &O::explicitRecomputation},
      OptionDef{"enableVariablesCaching", &O::enableVariablesCaching},
      OptionDef{"decomposeGradSum", &O::decomposeGradSum},
      OptionDef{"constantWeights", &O::constantWeights},
      OptionDef{"enableReplicatedGraphs", &O::enableReplicatedGraphs},
      OptionDef{"replicatedGraphCount", &O::replicatedGraphCount},
      OptionDef{"enableDistributedReplicatedGraphs", &O::enableDistributedReplicatedGraphs},
      OptionDef{"globalReplicaOffset", &O::globalReplicaOffset},
      OptionDef{"globalReplicationFactor", &O::globalReplicationFactor},
      OptionDef{"partialsTypeMatMuls", &O::partialsTypeMatMuls},
      OptionDef{"throwIfLog2ScaleTensorNotInRange", &O::throwIfLog2ScaleTensorNotInRange},
      OptionDef{"engineOptions", &O::engineOptions},
      OptionDef{"enableEngineCaching", &O::enableEngineCaching},
      OptionDef{"cachePath", &O::cachePath},
      OptionDef{"dotChecks", &O::dotChecks},
      OptionDef{"logDir", &O::logDir},
  };
  return kDefs;
}

std::span<const std::string_view> virtualGraphModes() {
  static constexpr std::array<std::string_view, 5> kNames{"off", "manual", "auto", "pipeline",
                                                          "execution_phases"};
  return kNames;
}

}  // namespace popxl::ir
