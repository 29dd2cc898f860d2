#include "ops/infer.h"

#include <algorithm>
#include <cstring>

namespace popxl::ops {

std::string describe(const Op& op, size_t operand) {
  const auto& operands = op.def().operands;
  const std::string_view name = operands[std::min(operand, operands.size() - 1)].name;
  const ir::Tensor& t = *op.input(operand);
  return fmt::format("operand `{}` (tensor {}, {})", name, t.name(), t.type().str());
}

void broadcastAll(const Op& op, Types& out) {
  TensorType type = typeOf(op, 0);
  for (size_t i = 1; i < op.inputs().size(); ++i) {
    if (op.input(i) == nullptr) continue;
    requireSameDType(op, 0, i);
    const Shape& shape = typeOf(op, i).shape;
    if (shape == type.shape) continue;
    Shape joint;
    if (!broadcastShapes(type.shape, shape, joint)) {
      fail(ErrorKind::kGraph,
           "{} does not broadcast with the shape {} of the operands before it: dimensions, counted from the "
           "last, must "
           "be equal or 1",
           describe(op, i), toString(type.shape));
    }
    if (joint != type.shape) type.metaShape.clear();
    type.shape = std::move(joint);
  }
  const int32_t target = op.def().inplaceOperand;
  if (op.inplace() && target >= 0 && typeOf(op, static_cast<size_t>(target)).shape != type.shape) {
    fail(ErrorKind::kGraph,
         "{} cannot be updated in place with a result of shape {}: use {} instead, which makes a new tensor",
         describe(op, static_cast<size_t>(target)), toString(type.shape), op.def().name);
  }
  out.push_back(std::move(type));
}

void broadcastToBool(const Op& op, Types& out) {
  broadcastAll(op, out);
  out.back().dtype = DType::kBool;
}

void sameShapeBool(const Op& op, Types& out) {
  sameType(op, out);
  out.back().dtype = DType::kBool;
}

void shapeOfAttr(const Op& op, Types& out) { out.push_back({typeOf(op, 0).dtype, ints(op, "shape"), {}}); }

void requireSameShape(const Op& op, size_t a, size_t b) {
  if (typeOf(op, a).shape == typeOf(op, b).shape) return;
  fail(ErrorKind::kGraph, "{} and {} must have the same shape; they are not broadcast", describe(op, a),
       describe(op, b));
}

void requireSameDType(const Op& op, size_t a, size_t b) {
  if (typeOf(op, a).dtype == typeOf(op, b).dtype) return;
  fail(ErrorKind::kGraph, "{} and {} must have the same dtype: cast one of them", describe(op, a),
       describe(op, b));
}

void requireRank(const Op& op, size_t operand, int64_t rank) {
  if (op.input(operand)->rank() == rank) return;
  fail(ErrorKind::kGraph, "{} must have {} dimension(s), it has {}", describe(op, operand), rank,
       op.input(operand)->rank());
}

void requireScalar(const Op& op, size_t operand) {
  if (typeOf(op, operand).numElements() == 1) return;
  fail(ErrorKind::kGraph, "{} must be a scalar tensor", describe(op, operand));
}

int64_t axisOf(const Op& op, int64_t rank, std::string_view attr) {
  return normalizeAxis(integer(op, attr), rank, std::string(attr).c_str());
}

std::vector<int64_t> reductionAxes(const Op& op, int64_t rank) {
  std::vector<int64_t> axes = ints(op, "axes");
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t& axis : axes) axis = normalizeAxis(axis, rank, "axis");
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    fail(ErrorKind::kValue, "an axis is given twice in {}", toString(ints(op, "axes")));
  }
  return axes;
}

Shape reducedShape(const Shape& shape, const std::vector<int64_t>& axes, bool keep) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (!reduced) out.push_back(shape[i]);
    if (reduced && keep) out.push_back(1);
  }
  return out;
}

Layout keptLayout(const Layout& reduced, const std::vector<int64_t>& axes, int64_t rank) {
  if (reduced.rank() == rank) return reduced;
  Layout out(reduced.dtype, {}, {});
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool dropped = std::binary_search(axes.begin(), axes.end(), i);
    out.shape.push_back(dropped ? 1 : reduced.shape[next]);
    out.strides.push_back(dropped ? 1 : reduced.strides[next]);
    if (!dropped) ++next;
  }
  return out;
}

namespace {
template <typename T>
void readInts(const std::byte* bytes, int64_t n, std::vector<int64_t>& out) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out.push_back(static_cast<int64_t>(value));
  }
}
}  // namespace

std::vector<int64_t> knownInts(const Op& op, size_t operand) {
  const ir::Tensor& t = *op.input(operand);
  if (t.data() == nullptr) {
    fail(ErrorKind::kValue, "{} must be a constant: its value decides about shapes while the graph is built",
         describe(op, operand));
  }
  std::vector<int64_t> out;
  const std::byte* bytes = t.data()->bytes;
  const int64_t n = t.type().numElements();
  switch (t.dtype()) {
    case DType::kInt8:
      readInts<int8_t>(bytes, n, out);
      break;
    case DType::kInt16:
      readInts<int16_t>(bytes, n, out);
      break;
    case DType::kInt32:
      readInts<int32_t>(bytes, n, out);
      break;
    case DType::kInt64:
      readInts<int64_t>(bytes, n, out);
      break;
    case DType::kUInt8:
      readInts<uint8_t>(bytes, n, out);
      break;
    case DType::kUInt16:
      readInts<uint16_t>(bytes, n, out);
      break;
    case DType::kUInt32:
      readInts<uint32_t>(bytes, n, out);
      break;
    case DType::kUInt64:
      readInts<uint64_t>(bytes, n, out);
      break;
    default:
      fail(ErrorKind::kGraph, "{} must have an integer dtype", describe(op, operand));
  }
  return out;
}

}  // namespace popxl::ops
