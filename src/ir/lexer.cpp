#include "ir/lexer.h"

#include <algorithm>

#include "base/error.h"
#include "ir/text_values.h"

namespace popxl::ir {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
bool continuesUtf8(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool isNumber(std::string_view word) { return word == "inf" || word == "nan"; }

}  // namespace

void Lexer::fail(size_t at, const std::string& message, ErrorKind kind) const {
  constexpr size_t kBefore = 100, kShown = 180;
  at = std::min(at, text_.size());
  const size_t lineStart = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const auto line = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  const size_t start =
      at - lineStart > kBefore ? at - kBefore : lineStart;  // long lines are cut around the place
  const size_t end = std::min({text_.find('\n', at), start + kShown, text_.size()});
  std::string shown(text_.substr(start, end - start));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; },
      ' ');
  const auto width = [&](size_t from) {
    const std::string_view part = text_.substr(from, at - from);
    return part.size() - static_cast<size_t>(std::count_if(part.begin(), part.end(), continuesUtf8));
  };
  throw Error(kind, fmt::format("{}:{}: {}\n  {}\n  {:>{}}", line, width(lineStart) + 1, message, shown, '^',
                                width(start) + 1));
}

/// True when a line ended on the way.
bool Lexer::skipBlanks() {
  bool newLine = at_ == 0;
  for (; at_ < text_.size(); ++at_) {
    if (ahead("//")) at_ = std::min(text_.find('\n', at_), text_.size());
    if (at_ == text_.size()) break;
    const char c = text_[at_];
    if (c == '\n') newLine = true;
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') break;
  }
  return newLine;
}

std::string Lexer::bareName() {
  const size_t start = at_;
  while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
  return std::string(text_.substr(start, at_ - start));
}

char Lexer::escaped() {
  const size_t start = at_ - 1;
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  if (c == '"' || c == '\\') return c;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == 'x' && at_ + 1 < text_.size()) {
    const int high = hexDigit(text_[at_]), low = hexDigit(text_[at_ + 1]);
    at_ += 2;
    if (high >= 0 && low >= 0) return static_cast<char>(high * 16 + low);
  }
  fail(start, "expected one of the escapes \\\" \\\\ \\n \\t \\xHH");
}

std::string Lexer::stringText() {
  const size_t start = at_++;
  std::string out;
  while (at_ < text_.size() && text_[at_] != '\n') {
    const char c = text_[at_++];
    if (c == '"') return out;
    out += c == '\\' ? escaped() : c;
  }
  fail(start, "expected a closing '\"' on the same line as the opening one");
}

Token Lexer::number(Token token) {
  const size_t start = at_;
  if (text_[at_] == '-') ++at_;
  if (at_ < text_.size() && isLetter(text_[at_])) {
    bareName();
    if (ahead("(0x")) at_ = std::min(text_.find(')', at_), text_.size() - 1) + 1;
  } else {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponentSign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!isDigit(c) && !isLetter(c) && c != '.' && !exponentSign) break;
      ++at_;
    }
  }
  token.kind = TokenKind::kNumber;
  token.text = text_.substr(start, at_ - start);
  if (!floatFromText(token.text)) fail(start, fmt::format("expected a number, got '{}'", token.text));
  return token;
}

/// A tensor's or graph's name after its sigil.
Token Lexer::name(Token token) {
  token.kind = text_[at_] == '%' ? TokenKind::kTensor : TokenKind::kGraph;
  ++at_;
  if (ahead("\"")) {
    token.text = stringText();
    return token;
  }
  token.text = bareName();
  if (token.text.empty()) fail(token.at, fmt::format("expected a name after '{}'", text_[token.at]));
  if (token.kind != TokenKind::kGraph) return token;
  if (token.text == "main") token.text.clear();
  // "(n)" belongs to the name of a graph; what it is called with starts with '%', '_' or ')'.
  size_t end = at_ + 1;
  while (ahead("(") && end < text_.size() && isDigit(text_[end])) ++end;
  if (end > at_ + 1 && end < text_.size() && text_[end] == ')') {
    if (token.text.empty()) token.text = "main";
    token.text += text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
  }
  return token;
}

Token Lexer::next() {
  Token token;
  token.newLine = skipBlanks();
  token.at = at_;
  if (at_ == text_.size()) return token;
  const char c = text_[at_];
  if (c == '%' || c == '@') return name(std::move(token));
  if (ahead("->")) {
    token.kind = TokenKind::kSign;
    token.text = "->";
    at_ += 2;
  } else if (isDigit(c) || c == '-' || ahead("nan(0x")) {
    return number(std::move(token));
  } else if (c == '"') {
    token.kind = TokenKind::kString;
    token.text = stringText();
  } else if (c == '#') {
    token.kind = TokenKind::kOp;
    for (++at_; at_ < text_.size() && isDigit(text_[at_]); ++at_) token.text += text_[at_];
    if (token.text.empty()) fail(token.at, "expected a number after '#'");
  } else if (isLetter(c)) {
    token.kind = TokenKind::kWord;
    while (at_ < text_.size() && (isLetter(text_[at_]) || isDigit(text_[at_]))) token.text += text_[at_++];
    if (isNumber(token.text)) token.kind = TokenKind::kNumber;
  } else if (std::string_view("()[]{},:=").find(c) != std::string_view::npos) {
    token.kind = TokenKind::kSign;
    token.text = c;
    ++at_;
  } else {
    fail(at_, fmt::format("no text form starts with {}", quoted(text_.substr(at_, 1))));
  }
  return token;
}

bool isDeclaration(std::string_view word) {
  return word == "variable" || word == "constant" || word == "stream_handle";
}

bool isReserved(std::string_view word) { return isDeclaration(word) || isNumber(word); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kTensor:
      return fmt::format("'{}'", tensorText(token.text));
    case TokenKind::kGraph:
      return fmt::format("'{}'", graphText(token.text));
    case TokenKind::kOp:
      return fmt::format("'#{}'", token.text);
    case TokenKind::kString:
      return quoted(token.text);
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace popxl::ir
