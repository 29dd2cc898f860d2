#include "popxl/dtype.h"

#include <array>

#include "base/error.h"

namespace popxl {
namespace {

struct Row {
  std::string_view name;
  int64_t size;
  bool isFloat, isInt, isSigned, isComplex;
};

constexpr std::array<Row, kNumDTypes> kRows = {{
    {"float8_143", 1, true, false, true, false},
    {"float8_152", 1, true, false, true, false},
    {"float16", 2, true, false, true, false},
    {"float32", 4, true, false, true, false},
    {"float64", 8, true, false, true, false},
    {"int8", 1, false, true, true, false},
    {"int16", 2, false, true, true, false},
    {"int32", 4, false, true, true, false},
    {"int64", 8, false, true, true, false},
    {"uint8", 1, false, true, false, false},
    {"uint16", 2, false, true, false, false},
    {"uint32", 4, false, true, false, false},
    {"uint64", 8, false, true, false, false},
    {"bool", 1, false, false, false, false},
    {"complex64", 8, false, false, true, true},
    {"complex128", 16, false, false, true, true},
}};

const Row& row(DType t) { return kRows[static_cast<size_t>(t)]; }

}  // namespace

int64_t sizeOf(DType t) { return row(t).size; }
std::string_view nameOf(DType t) { return row(t).name; }
bool isFloat(DType t) { return row(t).isFloat; }
bool isFloat8(DType t) { return t == DType::kFloat8_143 || t == DType::kFloat8_152; }
bool isInt(DType t) { return row(t).isInt; }
bool isSigned(DType t) { return row(t).isSigned; }
bool isComplex(DType t) { return row(t).isComplex; }

DType dtypeFromName(std::string_view name) {
  if (name == "float") return DType::kFloat32;
  if (name == "double") return DType::kFloat64;
  if (name == "half") return DType::kFloat16;
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  fail(ErrorKind::kValue, "there is no dtype named `{}`; use a name such as float32, float16 or int32", name);
}

}  // namespace popxl
