#pragma once

#include <string>
#include <string_view>

#include "popxl/error.h"

namespace popxl::ir {

enum class TokenKind : uint8_t {
  kEnd,
  kTensor,  ///< %name
  kGraph,   ///< @name
  kOp,      ///< #number
  kWord,
  kNumber,  ///< also inf, nan, nan(0x...)
  kString,
  kSign  ///< ( ) [ ] { } , : = ->
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  size_t at = 0;         ///< offset in the text
  std::string text;      ///< without sigil and quotes; "" for @main
  bool newLine = false;  ///< the first token of its line

  bool is(std::string_view sign) const { return kind == TokenKind::kSign && text == sign; }
  bool isWord(std::string_view word) const { return kind == TokenKind::kWord && text == word; }
};

/// Cuts a text into tokens; knows how to point at a place in it.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  /// Throws an Error: "line:column: message", the line and a caret below the place.
  [[noreturn]] void fail(size_t at, const std::string& message, ErrorKind kind = ErrorKind::kValue) const;

 private:
  bool skipBlanks();
  bool ahead(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  std::string bareName();
  std::string stringText();
  char escaped();
  Token number(Token token);
  Token name(Token token);

  std::string_view text_;
  size_t at_ = 0;
};

/// Whether the text form reads the word as the beginning of a tensor's declaration.
bool isDeclaration(std::string_view word);
/// Whether the text form reads the word as something else than a name: a declaration or a number.
bool isReserved(std::string_view word);

/// The token as an error message names it.
std::string describe(const Token& token);

}  // namespace popxl::ir
