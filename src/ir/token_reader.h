#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ir/lexer.h"
#include "ir/op_def.h"
#include "ir/parse_tree.h"
#include "ir/text_values.h"

namespace popxl::ir {

/// Reads a text one value at a time, one token ahead; what is not there as expected is an Error at its place.
class TokenReader {
 public:
  explicit TokenReader(Lexer& lexer) : lexer_(lexer), ahead_(lexer.next()) {}

  const Token& peek() const { return ahead_; }
  Token take();
  [[noreturn]] void fail(size_t at, const std::string& message) const { lexer_.fail(at, message); }
  /// "expected WHAT, got" the next token.
  [[noreturn]] void expected(std::string_view what) const;

  bool accept(std::string_view sign);
  bool acceptWord(std::string_view word);
  /// `word(`: a word alone is the name of an op on the next line.
  bool acceptSuffix(std::string_view word);
  void expect(std::string_view sign, std::string_view where);
  void expectWord(std::string_view word);

  /// Items separated by commas up to `close`, which is taken too.
  template <typename Item>
  void list(std::string_view close, Item item) {
    if (accept(close)) return;
    while (true) {
      item();
      if (accept(close)) return;
      if (!accept(",")) expected(std::string("',' or '") + std::string(close) + '\'');
    }
  }

  int64_t toInteger(const Token& token, std::string_view digits) const;
  int64_t integer(std::string_view what);
  int32_t int32(std::string_view what);
  double number(std::string_view what);
  bool boolean();
  std::string string(std::string_view what);
  size_t oneOf(std::span<const std::string_view> words);
  std::vector<int64_t> integers();  ///< [1, 2]
  std::vector<double> numbers();    ///< [1.5, 2]
  NameText tensorName(std::string_view what);
  NameText graphName();
  TensorType type();
  Loc location();  ///< unknown when none is there
  /// A value of the attribute's type; graphs stand elsewhere.
  Attr attribute(const AttrDef& def);
  /// One element of tensor data.
  void element(DType dtype, std::byte* bytes);

 private:
  DType dtype();
  Shape shape();

  Lexer& lexer_;
  Token ahead_;
};

}  // namespace popxl::ir
