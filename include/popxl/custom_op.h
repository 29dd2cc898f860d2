#pragma once

#include <popxl/error.h>
#include <popxl/tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Ops of a program's own: docs/custom-ops.md.
namespace popxl {

using AttrValue =
    std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>, DType>;
using NamedAttr = std::pair<std::string, AttrValue>;

namespace detail {
[[noreturn]] void failAttr(std::string_view name);
[[noreturn]] void failArrayType(const TensorSpec& spec, DType wanted);
}  // namespace detail

/// One use of an op, as the op's functions see it.
struct OpUse {
  std::vector<TensorSpec> operands;
  std::vector<TensorSpec> results;  ///< not known yet when `infer` is called
  std::vector<NamedAttr> attrs;

  /// The value of an attribute. Error(kKey) when there is none of that name and type.
  template <typename T>
  const T& attr(std::string_view name) const {
    for (const auto& [known, value] : attrs) {
      if (known == name && std::holds_alternative<T>(value)) return std::get<T>(value);
    }
    detail::failAttr(name);
  }
};

/// Memory of a tensor, dense and in row-major order.
template <typename Byte>
struct ArrayView {
  TensorSpec spec;
  Byte* bytes = nullptr;

  /// The elements as T. Error(kType) when the dtype is another one.
  template <typename T>
  auto as() const {
    if (spec.dtype != dtypeOf<T>()) detail::failArrayType(spec, dtypeOf<T>());
    int64_t count = 1;
    for (const int64_t d : spec.shape) count *= d;
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return std::span<Element>(reinterpret_cast<Element*>(bytes), static_cast<size_t>(count));
  }
};
using InputArray = ArrayView<const std::byte>;
using OutputArray = ArrayView<std::byte>;

/// An attribute that an op takes.
struct AttrSpec {
  std::string name;
  AttrValue fallback;  ///< its default; of a required one only the type counts
  std::string doc = "";
  bool required = false;
};

/// An op of a program's own. Its functions depend on their arguments only: uses of the op may be merged,
/// repeated or left out, and run on several threads at once. What they throw becomes an Error that names op
/// and line of the program.
struct CustomOp {
  /// Reads operands, writes all of every result.
  using ArrayFunction =
      std::function<void(const OpUse&, std::span<const InputArray>, std::span<const OutputArray>)>;
  /// Makes ops that compute the results from the operands: of operands and constants only, none that works in
  /// place, calls graphs, talks to the host or is this op itself.
  using Composition = std::function<std::vector<Tensor>(const OpUse&, const std::vector<Tensor>&)>;

  std::string name;  ///< lower case, digits and '_'
  std::string doc = "";
  std::vector<std::string> operands;
  std::vector<AttrSpec> attrs = {};
  std::vector<std::string> results = {"out"};

  /// Types of the results; throws for operands that do not fit. Default: for a composition what it gives,
  /// else each result is like the first operand.
  std::function<std::vector<TensorSpec>(const OpUse&)> infer = {};

  ArrayFunction forward = {};  ///< either this
  Composition compose = {};    ///< or this

  /// What the gradient is given, in this order: names of operands and results, and `grad_NAME` for the
  /// gradient of a result. Default: all gradients, then all operands, then all results.
  std::vector<std::string> gradientReads = {};
  /// Gradients of the floating-point operands, in order; as a composition an empty Tensor says that there is
  /// none. Default: that of a composition is found by differentiating its ops, anything else has none.
  ArrayFunction gradient = {};
  Composition composeGradient = {};
};

/// Makes an op known, for the life of the process. A gradient on arrays becomes an op `NAME_grad`.
/// Error(kValue) for a description that makes no op or a name that is taken.
void registerOp(CustomOp op);

/// Loads a shared library of ops (POPXL_OPS); once, however often it is named. Returns the names of its ops.
/// Error(kValue) when it is none, was built against another version of the library or is linked to another
/// copy.
std::vector<std::string> loadOps(const std::string& path);

namespace ops {

/// Adds an op by its name in the table, of whatever origin: attributes that are not given have their default.
/// Error(kKey) when there is none.
std::vector<Tensor> byName(std::string_view name, const std::vector<Tensor>& operands,
                           const std::vector<NamedAttr>& attrs = {},
                           std::source_location where = std::source_location::current());

}  // namespace ops

/// Version of what a library of ops and this library agree on: the types above.
inline constexpr int kOpsAbi = 1;

/// What a library of ops gives when it is loaded.
struct OpLibrary {
  const void* library = nullptr;  ///< the copy of this library that it is linked to
  std::vector<CustomOp> ops;
};
const void* thisLibrary();

}  // namespace popxl

/// Begins the function in which a shared library lists its ops: POPXL_OPS(ops) { ops.push_back({...}); }
#define POPXL_OPS(list)                                                                          \
  static void popxlListOps(std::vector<popxl::CustomOp>& list);                                  \
  extern "C" __attribute__((visibility("default"))) int popxlOpsAbi() { return popxl::kOpsAbi; } \
  extern "C" __attribute__((visibility("default"))) void popxlOps(popxl::OpLibrary& library) {   \
    library.library = popxl::thisLibrary();                                                      \
    popxlListOps(library.ops);                                                                   \
  }                                                                                              \
  static void popxlListOps(std::vector<popxl::CustomOp>& list)
