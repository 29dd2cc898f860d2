#include "base/element.h"

#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace popxl {

namespace {

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace

Element loadElement(DType t, const std::byte* at) {
  const auto number = [](double v) { return Element{.number = v, .integer = 0}; };
  const auto integer = [](auto v) {
    return Element{.number = 0, .integer = static_cast<uint64_t>(static_cast<int64_t>(v))};
  };
  switch (t) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return number(float8ToFloat(read<uint8_t>(at), t));
    case DType::kFloat16:
      return number(halfToFloat(read<uint16_t>(at)));
    case DType::kFloat32:
      return number(read<float>(at));
    case DType::kFloat64:
      return number(read<double>(at));
    case DType::kInt8:
      return integer(read<int8_t>(at));
    case DType::kInt16:
      return integer(read<int16_t>(at));
    case DType::kInt32:
      return integer(read<int32_t>(at));
    case DType::kInt64:
      return integer(read<int64_t>(at));
    case DType::kUInt8:
      return integer(read<uint8_t>(at));
    case DType::kUInt16:
      return integer(read<uint16_t>(at));
    case DType::kUInt32:
      return integer(read<uint32_t>(at));
    case DType::kUInt64:
      return {.number = 0, .integer = read<uint64_t>(at)};
    case DType::kBool:
      return integer(read<uint8_t>(at) != 0 ? 1 : 0);
    default:
      break;
  }
  POPXL_ASSERT(false, "an operand of {}", nameOf(t));
  return {};
}

void storeElement(DType t, const Element& v, std::byte* at) {
  switch (t) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return write(at, floatToFloat8(static_cast<float>(v.number), t, false));
    case DType::kFloat16:
      return write(at, floatToHalf(static_cast<float>(v.number)));
    case DType::kFloat32:
      return write(at, static_cast<float>(v.number));
    case DType::kFloat64:
      return write(at, v.number);
    case DType::kInt8:
    case DType::kUInt8:
      return write(at, static_cast<uint8_t>(v.integer));
    case DType::kInt16:
    case DType::kUInt16:
      return write(at, static_cast<uint16_t>(v.integer));
    case DType::kInt32:
    case DType::kUInt32:
      return write(at, static_cast<uint32_t>(v.integer));
    case DType::kInt64:
    case DType::kUInt64:
      return write(at, v.integer);
    case DType::kBool:
      return write(at, static_cast<uint8_t>(v.integer != 0));
    default:
      POPXL_ASSERT(false, "an operand of {}", nameOf(t));
  }
}

}  // namespace popxl
