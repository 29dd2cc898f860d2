#include "exec/print_tensor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace popxl::exec {
namespace {

template <typename T>
T load(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double floatAt(DType t, const std::byte* data, int64_t i) {
  switch (t) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return float8ToFloat(load<uint8_t>(data, i), t);
    case DType::kFloat16:
      return halfToFloat(load<uint16_t>(data, i));
    case DType::kFloat32:
      return load<float>(data, i);
    default:
      return load<double>(data, i);
  }
}

std::string integerAt(DType t, const std::byte* data, int64_t i) {
  switch (t) {
    case DType::kInt8:
      return fmt::to_string(static_cast<int>(load<int8_t>(data, i)));
    case DType::kInt16:
      return fmt::to_string(load<int16_t>(data, i));
    case DType::kInt32:
      return fmt::to_string(load<int32_t>(data, i));
    case DType::kInt64:
      return fmt::to_string(load<int64_t>(data, i));
    case DType::kUInt8:
      return fmt::to_string(static_cast<unsigned>(load<uint8_t>(data, i)));
    case DType::kUInt16:
      return fmt::to_string(load<uint16_t>(data, i));
    case DType::kUInt32:
      return fmt::to_string(load<uint32_t>(data, i));
    case DType::kUInt64:
      return fmt::to_string(load<uint64_t>(data, i));
    default:
      return load<uint8_t>(data, i) != 0 ? "True" : "False";
  }
}

/// The text of one tensor, printed once.
class Text {
 public:
  Text(const ir::Op& op, const std::byte* data) : op_(op), type_(op.input(0)->type()), data_(data) {
    summarise_ = type_.numElements() > op.attr<int64_t>("summarise_threshold");
    edge_ = std::max<int64_t>(op.attr<int64_t>("edge_items"), 1);
    if (isFloat(type_.dtype)) chooseFormat();
  }

  std::string str() {
    std::string out = op_.attr<std::string>("title") + ": ";
    column_ = out.size();
    axis(0, 0, out);
    return out + "\n";
  }

 private:
  void chooseFormat() {
    double largest = 0, smallest = INFINITY;
    for (int64_t i = 0; i < type_.numElements(); ++i) {
      const double magnitude = std::fabs(floatAt(type_.dtype, data_, i));
      if (!std::isfinite(magnitude) || magnitude == 0) continue;
      largest = std::max(largest, magnitude);
      smallest = std::min(smallest, magnitude);
    }
    const std::string& format = op_.attr<std::string>("float_format");
    scientific_ =
        format == "scientific" || (format == "auto" && (largest >= 1e8 || (largest > 0 && smallest < 1e-4)));
    shortest_ = format == "none";
  }

  std::string element(int64_t i) const {
    if (!isFloat(type_.dtype)) return integerAt(type_.dtype, data_, i);
    const double value = floatAt(type_.dtype, data_, i);
    if (!std::isfinite(value)) return fmt::format("{}", value);
    if (shortest_) return fmt::format("{}", static_cast<float>(value));
    const auto digits = static_cast<int>(op_.attr<int64_t>("digits"));
    return scientific_ ? fmt::format("{:.{}e}", value, digits) : fmt::format("{:.{}f}", value, digits);
  }

  void axis(size_t dim, int64_t offset, std::string& out) {
    if (dim == type_.shape.size()) {
      const std::string text = element(offset);
      const size_t width = static_cast<size_t>(op_.attr<int64_t>("max_line_width"));
      if (column_ + text.size() > width && column_ > dim) {
        out += "\n" + std::string(dim, ' ');
        column_ = dim;
      }
      out += text;
      column_ += text.size();
      return;
    }
    const bool last = dim + 1 == type_.shape.size();
    const int64_t size = type_.shape[dim];
    int64_t step = 1;
    for (size_t d = dim + 1; d < type_.shape.size(); ++d) step *= type_.shape[d];
    out += open_;
    column_ += open_.size();
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) {
        out += last ? separator_ : "\n" + std::string(dim + 1, ' ');
        column_ = last ? column_ + separator_.size() : dim + 1;
      }
      if (summarise_ && size > 2 * edge_ && i == edge_) {
        out += "...";
        column_ += 3;
        i = size - edge_ - 1;
        continue;
      }
      axis(dim + 1, offset + i * step, out);
    }
    out += close_;
    column_ += close_.size();
  }

  const ir::Op& op_;
  const ir::TensorType& type_;
  const std::byte* data_;
  bool summarise_ = false, scientific_ = false, shortest_ = false;
  int64_t edge_ = 3;
  size_t column_ = 0;
  const std::string& separator_ = op_.attr<std::string>("separator");
  const std::string& open_ = op_.attr<std::string>("open_bracket");
  const std::string& close_ = op_.attr<std::string>("close_bracket");
};

}  // namespace

void printTensor(const ir::Op& op, const std::byte* data) {
  if (!op.attr<bool>("print_self")) return;
  const std::string text = Text(op, data).str();
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace popxl::exec
