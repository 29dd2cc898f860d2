// Every mistake in a text is an Error that says where, what was expected and what is there, and shows the
// line.

#include <gtest/gtest.h>

#include "ir_testing.h"
#include "popxl/error.h"

namespace popxl::ir {
namespace {

struct Mistake {
  std::string_view text;
  std::string_view place;    ///< "line:column"
  std::string_view message;  ///< a part of it
  ErrorKind kind = ErrorKind::kValue;
};

std::string errorOf(std::string_view text, ErrorKind& kind, const ParseOptions& options = {}) {
  try {
    parse(text, ops::table(), options);
  } catch (const Error& error) {
    kind = error.kind();
    return error.what();
  }
  return "no error";
}

void expectMistakes(std::initializer_list<Mistake> mistakes) {
  for (const Mistake& m : mistakes) {
    ErrorKind kind{};
    const std::string error = errorOf(m.text, kind);
    EXPECT_TRUE(error.starts_with(std::string(m.place) + ": ")) << m.text << "\n" << error;
    EXPECT_NE(error.find(m.message), std::string::npos) << m.text << "\n" << error;
    EXPECT_EQ(kind, m.kind) << error;
  }
}

TEST(ParseErrors, ShowTheLineAndThePlace) {
  ErrorKind kind{};
  EXPECT_EQ(errorOf("graph @main(%x: float32 (2)) {\n  %y = add %x, 3\n}", kind),
            "2:16: expected the %name of an operand, got '3'\n"
            "    %y = add %x, 3\n"
            "                 ^");
}

TEST(ParseErrors, ColumnsCountLettersNotBytes) {
  ErrorKind kind{};
  EXPECT_EQ(errorOf("graph @\"\xc3\xa9\xc3\xa9\" 3", kind),
            "1:13: expected '{' to open the graph, got '3'\n"
            "  graph @\"\xc3\xa9\xc3\xa9\" 3\n"
            "              ^");
}

TEST(ParseErrors, LongLinesAreCut) {
  ErrorKind kind{};
  const std::string text = "graph @main { // " + std::string(500, 'x') + "\n" + std::string(1000, ' ') +
                           "? " + std::string(1000, ' ') + "}";
  const std::string error = errorOf(text, kind);
  EXPECT_TRUE(error.starts_with("2:1001: ")) << error;
  EXPECT_LT(error.size(), 500U);
}

TEST(ParseErrors, Words) {
  expectMistakes({
      {"graph @main { $ }", "1:15", "no text form starts with \"$\""},
      {"graph @main { %\"abc }", "1:16", "expected a closing '\"'"},
      {"graph @main { %\"a\\q\" }", "1:18", "expected one of the escapes"},
      {"graph @main { %\"a\\xg0\" }", "1:18", "expected one of the escapes"},
      {"graph @main { % }", "1:15", "expected a name after '%'"},
      {"graph @ { }", "1:7", "expected a name after '@'"},
      {"graph @main { # }", "1:15", "expected a number after '#'"},
      {"ir (host_transfers = 1e) { }", "1:22", "expected a number, got '1e'"},
      {"ir (host_transfers = -) { }", "1:22", "expected a number, got '-'"},
      {"ir (host_transfers = 99999999999999999999) { }", "1:22", "expected an integer of 64 bits"},
      {"ir (host_transfers = 1.5) { }", "1:22", "expected an integer of 64 bits"},
  });
}

TEST(ParseErrors, Frame) {
  expectMistakes({
      {"foo", "1:1", "expected ir, stream, remote_buffer or graph, got 'foo'"},
      {"ir {", "1:5", "expected stream, remote_buffer, graph or '}', got the end of the text"},
      {"ir { } }", "1:8", "expected the end of the text after the ir, got '}'"},
      {"ir ( { }", "1:8", "expected '=' after the name of an option, got '}'"},
      {"ir (x = 1) { }", "1:5", "expected host_transfers, counters or a session option, got 'x'"},
      {"ir (host_transfers = 0) { }", "1:22", "host_transfers must be at least 1"},
      {"ir (counters = [1, 2]) { }", "1:16", "expected [ops, tensors, graphs]"},
      {"ir (counters = [-1, 0, 0]) { }", "1:16", "expected [ops, tensors, graphs]"},
      {"ir (counters = [0, 0, 0]) { graph @main(%x: int8 ()) { %y = abs %x } }", "1:1", "counter of ops"},
      {"ir (virtualGraphMode = on) { }", "1:24", "expected one of off, manual, auto"},
      {"ir (dotChecks = 3) { }", "1:17", "expected '[' to open the strings"},
      {"stream in", "1:8", "expected the name of the stream in double quotes"},
      {"stream \"a\" : float32 (2) up", "1:26", "expected one of host_to_device, device_to_host"},
      {"stream \"a\" : int8 () host_to_device stream \"a\" : int8 () host_to_device", "1:44",
       "already a stream \"a\""},
      {"stream \"\" : int8 () host_to_device", "1:8", "can't be empty"},
      {"remote_buffer 1 : int8 () entries(0)", "1:35", "at least one entry"},
      {"remote_buffer 1 : int8 () entries(1) remote_buffer 1 : int8 () entries(1)", "1:52",
       "already a remote_buffer 1"},
      {"graph @a { } graph @a { }", "1:20", "already a graph @a"},
      {"graph @main { } graph @main { }", "1:23", "already a graph @main"},
      {"graph @main { graph @b { } }", "1:15", "there is no op named `graph`"},
      {"graph @main(%x float32 ()) { }", "1:16", "expected ':' before the type of the input, got 'float32'"},
      {"graph @main(%x: int8 (), %x: int8 ()) { }", "1:26", "already a tensor %x in graph @main"},
      {"graph @main(%\"\": int8 ()) { }", "1:13", "can't be empty"},
      {"graph @main -> (%y) { }", "1:17", "there is no tensor %y in graph @main"},
  });
}

TEST(ParseErrors, Types) {
  expectMistakes({
      {"graph @main(%x: float (2)) { }", "1:17",
       "expected a dtype (float32, float16, int32, ...), got 'float'"},
      {"graph @main(%x: float32) { }", "1:24", "expected '(' to open the shape"},
      {"graph @main(%x: float32 (2 3)) { }", "1:28", "expected ',' or ')' in the shape, got '3'"},
      {"graph @main(%x: float32 (a)) { }", "1:26", "expected a size or ')', got 'a'"},
      {"graph @main(%x: float32 (1000000, 10000000)) { }", "1:25", "at most 2^40 elements"},
      {"graph @main(%x: float32 (9223372036854775807)) { }", "1:25", "no size that a tensor can have"},
  });
}

TEST(ParseErrors, Declarations) {
  expectMistakes({
      {"graph @main { variable float32 (2) }", "1:15", "expected `%name = variable`"},
      {"graph @main { %a, %b = constant float32 (2) }", "1:15", "expected `%name = constant`"},
      {"graph @f { %a = variable float32 (2) }", "1:12", "variables stand in graph @main"},
      {"graph @main { %a = constant float32 (2) [1] }", "1:41",
       "expected 2 elements for float32 (2,), got 1"},
      {"graph @main { %a = constant float32 (2) [1, 2, 3] }", "1:41", "got more"},
      {"graph @main { %a = constant int8 (1) [300] }", "1:39", "expected a int8, got '300'"},
      {"graph @main { %a = constant bool (1) [1] }", "1:39", "expected a bool, got '1'"},
      {"graph @main { %a = constant float32 (1) [%x] }", "1:42", "expected a float32, got '%x'"},
      {"graph @main { %a = constant complex64 (1) [1] }", "1:44", "complex data as base64"},
      {"graph @main { %a = constant int8 (1) base64(\"A\") }", "1:38", "not base64"},
      {"graph @main { %a = constant int8 (1) base64(\"AB==\") }", "1:38", "not base64"},
      {"graph @main { %a = constant int8 (1) base64(\"AAAA\") }", "1:38",
       "expected 1 bytes for int8 (1,), got 3"},
      {"graph @main { %a = constant int8 (-1) zeros }", "1:29", "a tensor of shape (-1,) has no data"},
      {"graph @main { %a = constant int8 (4) elided(4 bytes) }", "1:38",
       "left out when the text was printed"},
      {"graph @main { %a = variable int8 () groups(2: [0, 2]) zeros }", "1:44", "there is no group 2"},
      {"graph @main { %a = variable int8 () groups(0: []) zeros }", "1:44", "between 1 and 2^20 groups"},
      {"graph @main { %a = constant int8 () zeros %b = 3 }", "1:48", "expected the name of an op, got '3'"},
      {"graph @main { %a = constant int8 () %a = constant int8 () }", "1:37", "already a tensor %a"},
  });
}

TEST(ParseErrors, Ops) {
  expectMistakes({
      {"graph @main(%x: int8 ()) { %y = frob %x }", "1:33", "there is no op named `frob`"},
      {"graph @main(%x: int8 ()) { %y = sub_ %x, %x }", "1:33", "there is no op named `sub_`"},
      {"graph @main(%x: int8 ()) { %y = abs %z }", "1:37", "there is no tensor %z in graph @main"},
      {"graph @main(%x: int8 ()) { %x = abs %x }", "1:28", "already a tensor %x"},
      {"graph @main(%x: int8 ()) { %y = abs %y }", "1:28", "wait for its own results"},
      {"graph @main(%x: int8 ()) { %y = abs %z  \n %z = abs %y }", "1:28", "wait for its own results"},
      {"graph @main(%x: int8 ()) { %y = abs %x %x }", "1:40", "'{', ipu(, tiles("},
      {"graph @main(%x: int8 ()) { %y, %z = abs %x }", "1:28", "`abs` has 1 results here, but 2 are named"},
      {"graph @main(%x: int8 ()) { abs %x }", "1:28", "`abs` has 1 results here, but 0 are named"},
      {"graph @main(%x: int8 ()) { %y = abs %x : int8 (1) }", "1:42", "expected int8 () for %y"},
      {"graph @main(%x: int8 ()) { %y = abs %x : int16 () }", "1:42", "expected int8 () for %y"},
      {"graph @main(%x: int8 ()) { %y = abs %x : int8 (), int8 () }", "1:42", "expected 1 types, got 2"},
      {"graph @main(%x: int8 ()) { %y = abs %x {q = 1} }", "1:41",
       "attribute of `abs` (it has none), got 'q'"},
      {"graph @main(%x: int8 ()) { %y = sum %x {axis = 1} }", "1:41",
       "attribute of `sum` (axes, keepdims), got 'axis'"},
      {"graph @main(%x: int8 ()) { %y = sum %x {axes = 1} }", "1:48", "expected '[' to open the integers"},
      {"graph @main(%x: int8 ()) { %y = sum %x {axes = [], keepdims = 1} }", "1:63",
       "expected one of false, true"},
      {"graph @main(%x: int8 ()) { %y = sum %x {axes = none} }", "1:28", "attribute `axes`"},
      {"graph @main(%x: int8 ()) { %y = cast %x {data_type = int} }", "1:54", "expected a dtype"},
      {"graph @main(%x: int8 ()) { %y = abs %x ipu(x) }", "1:44", "expected the number of the ipu, got 'x'"},
      {"graph @main(%x: int8 ()) { %y = abs %x ipu(9999999999) }", "1:44", "more than 32 bits"},
      {"graph @main(%x: int8 ()) { %y = abs %x context(late) }", "1:48", "expected one of weights_from_host"},
      {"graph @main(%x: int8 ()) { %y = abs %x modified(1) }", "1:28", "modified(1): `abs` has 1 operands"},
      {"graph @main(%x: int8 ()) { %y = abs %x after(%x) }", "1:46", "no op makes tensor %x"},
      {"graph @main(%x: int8 ()) { %y = abs %x after(#9) }", "1:46", "there is no op #9 in graph @main"},
      {"graph @main(%x: int8 ()) { %y = abs %x loc(3) }", "1:44", "expected the file in double quotes"},
      {"graph @main(%x: int8 ()) { #3 %y = abs %x #3 %z = abs %x }", "1:43", "expected '{'"},
      {"graph @main(%x: int8 ()) { #3 %y = abs %x\n#3 %z = abs %x }", "2:1", "there is already an op #3"},
      {"graph @main(%x: int8 ()) { #9000000000000000000 %y = abs %x }", "1:28",
       "the number of an op is at most"},
      {"graph @main(%x: int8 ()) { %y = call @g(%x) }", "1:38", "there is no graph @g"},
      {
          "graph @main(%x: int8 ()) { %y = abs @main %x }",
          "1:7",
          "calls itself",
      },
      {"graph @g { } graph @main(%x: int8 ()) { %y = abs @g %x }", "1:50", "`abs` takes 0 graphs"},
      {"graph @a { call @b() } graph @b { call @a() }", "1:7", "graph @a calls itself, or graphs that do"},
      {"graph @main { call() }", "1:15", "attribute `graph` is missing"},
  });
}

TEST(ParseErrors, RefusedOpsKeepTheirKind) {
  expectMistakes({
      {"graph @main(%x: float32 (2), %y: float32 (3)) {\n %z = add %x, %y }", "2:2", "in op `add`",
       ErrorKind::kGraph},
      {"graph @main(%x: bool (2)) {\n %z = add %x, %x }", "2:2", "cast it first", ErrorKind::kType},
      {"graph @main(%x: int8 ()) { %y = abs _ }", "1:28", "operand `t` is missing", ErrorKind::kValue},
  });
}

TEST(ParseErrors, DataBeyondMemoryIsRefused) {
  ErrorKind kind{};
  const std::string_view text =
      "graph @main { %a = constant int8 (600) zeros  %b = constant int8 (600) zeros }";
  EXPECT_EQ(errorOf(text, kind, {.maxDataBytes = 1200}), "no error");
  EXPECT_TRUE(
      errorOf(text, kind, {.maxDataBytes = 1199}).starts_with("1:61: the text's data takes more memory"));
  EXPECT_TRUE(
      errorOf("graph @main { %a = constant int8 (1000000, 1000000) zeros }", kind).starts_with("1:29: "));
}

}  // namespace
}  // namespace popxl::ir
