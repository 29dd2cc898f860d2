#include "ir/token_reader.h"

#include <charconv>
#include <limits>
#include <optional>

#include "base/error.h"

namespace popxl::ir {

Token TokenReader::take() {
  Token taken = std::move(ahead_);
  ahead_ = taken.kind == TokenKind::kEnd ? taken : lexer_.next();
  return taken;
}

void TokenReader::expected(std::string_view what) const {
  fail(ahead_.at, fmt::format("expected {}, got {}", what, describe(ahead_)));
}

bool TokenReader::accept(std::string_view sign) {
  if (!ahead_.is(sign)) return false;
  take();
  return true;
}

bool TokenReader::acceptWord(std::string_view word) {
  if (!ahead_.isWord(word)) return false;
  take();
  return true;
}

bool TokenReader::acceptSuffix(std::string_view word) {
  if (ahead_.newLine || !ahead_.isWord(word)) return false;
  take();
  expect("(", fmt::format("after {}", word));
  return true;
}

void TokenReader::expect(std::string_view sign, std::string_view where) {
  if (!accept(sign)) expected(fmt::format("'{}' {}", sign, where));
}

void TokenReader::expectWord(std::string_view word) {
  if (!acceptWord(word)) expected(word);
}

int64_t TokenReader::toInteger(const Token& token, std::string_view digits) const {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    fail(token.at, fmt::format("expected an integer of 64 bits, got {}", describe(token)));
  }
  return value;
}

int64_t TokenReader::integer(std::string_view what) {
  if (ahead_.kind != TokenKind::kNumber) expected(what);
  const Token token = take();
  return toInteger(token, token.text);
}

int32_t TokenReader::int32(std::string_view what) {
  const size_t at = ahead_.at;
  const int64_t value = integer(what);
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    fail(at, fmt::format("{} has more than 32 bits", value));
  }
  return static_cast<int32_t>(value);
}

double TokenReader::number(std::string_view what) {
  if (ahead_.kind != TokenKind::kNumber) expected(what);
  const Token token = take();
  const std::optional<double> value = floatFromText(token.text);
  POPXL_ASSERT(value.has_value(), "the lexer took `{}` for a number", token.text);
  return *value;
}

bool TokenReader::boolean() {
  constexpr std::array<std::string_view, 2> kWords{"false", "true"};
  return oneOf(kWords) == 1;
}

std::string TokenReader::string(std::string_view what) {
  if (ahead_.kind != TokenKind::kString) expected(fmt::format("{} in double quotes", what));
  return take().text;
}

size_t TokenReader::oneOf(std::span<const std::string_view> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (acceptWord(words[i])) return i;
  }
  expected(fmt::format("one of {}", fmt::join(words, ", ")));
}

std::vector<int64_t> TokenReader::integers() {
  std::vector<int64_t> values;
  expect("[", "to open the integers");
  list("]", [&] { values.push_back(integer("an integer")); });
  return values;
}

std::vector<double> TokenReader::numbers() {
  std::vector<double> values;
  expect("[", "to open the numbers");
  list("]", [&] { values.push_back(number("a number")); });
  return values;
}

NameText TokenReader::tensorName(std::string_view what) {
  if (ahead_.kind != TokenKind::kTensor) expected(fmt::format("the %name of {}", what));
  Token token = take();
  return {std::move(token.text), token.at};
}

NameText TokenReader::graphName() {
  if (ahead_.kind != TokenKind::kGraph) expected("the @name of a graph");
  Token token = take();
  return {std::move(token.text), token.at};
}

DType TokenReader::dtype() {
  if (ahead_.kind == TokenKind::kWord) {
    for (int i = 0; i < kNumDTypes; ++i) {
      if (nameOf(static_cast<DType>(i)) != ahead_.text) continue;
      take();
      return static_cast<DType>(i);
    }
  }
  expected("a dtype (float32, float16, int32, ...)");
}

Shape TokenReader::shape() {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  Shape shape;
  int64_t elements = 1;
  const size_t at = ahead_.at;
  expect("(", "to open the shape");
  while (!accept(")")) {
    shape.push_back(integer("a size or ')'"));
    // Products of sizes must stay far from the end of int64.
    const int64_t size = shape.back();
    if (size > kMaxElements || size < -kMaxElements)
      fail(at, fmt::format("{} is no size that a tensor can have", size));
    elements *= std::max<int64_t>(std::abs(size), 1);
    if (elements > kMaxElements) fail(at, "a tensor has at most 2^40 elements");
    if (shape.size() > 64) fail(at, "a tensor has at most 64 dimensions");
    if (!accept(",") && !ahead_.is(")")) expected("',' or ')' in the shape");
  }
  return shape;
}

TensorType TokenReader::type() {
  TensorType type;
  type.dtype = dtype();
  type.shape = shape();
  if (acceptWord("meta")) type.metaShape = shape();
  return type;
}

Loc TokenReader::location() {
  if (!acceptSuffix("loc")) return {};
  Loc loc;
  loc.file = intern(string("the file"));
  expect(":", "after the file");
  loc.line = int32("the line");
  if (acceptWord("in")) loc.function = intern(string("the function"));
  expect(")", "to close loc");
  return loc;
}

Attr TokenReader::attribute(const AttrDef& def) {
  switch (def.type) {
    case AttrType::kInt:
      return integer(fmt::format("an integer for `{}`", def.name));
    case AttrType::kFloat:
      return number(fmt::format("a number for `{}`", def.name));
    case AttrType::kBool:
      return boolean();
    case AttrType::kString:
      return string(fmt::format("the value of `{}`", def.name));
    case AttrType::kInts:
      return integers();
    case AttrType::kFloats:
      return numbers();
    case AttrType::kDType:
      return dtype();
    case AttrType::kGraph:
      break;
  }
  expected("a graph to stand after the name of the op, not among the attributes");
}

void TokenReader::element(DType dtype, std::byte* bytes) {
  const bool value = ahead_.kind == TokenKind::kNumber || ahead_.kind == TokenKind::kWord;
  if (!value || !elementFromText(dtype, ahead_.text, bytes)) {
    expected(isComplex(dtype) ? "complex data as base64(...)" : fmt::format("a {}", nameOf(dtype)));
  }
  take();
}

}  // namespace popxl::ir
