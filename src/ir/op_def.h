#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/dtype_set.h"
#include "ir/reference.h"
#include "ir/types.h"
#include "kernels/collective.h"
#include "kernels/elementwise.h"
#include "kernels/kernel.h"

namespace popxl::ir {

enum class Arity : uint8_t { kOne, kOptional, kVariadic };

struct OperandDef {
  std::string_view name;
  DTypes dtypes = kAny;
  std::string_view doc = "";
  Arity arity = Arity::kOne;  ///< at most one variadic operand, the last
  bool channelsLast = false;  ///< a kernel takes [N, C, ...] in the order N, ..., C as readily
};

struct AttrDef {
  std::string_view name;
  AttrType type;
  std::string_view doc = "";
  Attr fallback = {};     ///< default; monostate without `optional` means required
  bool optional = false;  ///< may be absent (monostate)
};

struct ResultDef {
  std::string_view name;
  std::string_view doc = "";
  bool variadic = false;      ///< the only result: as many as inference says
  bool channelsLast = false;  ///< a kernel can write [N, C, ...] in the order N, ..., C
};

/// What one input of an op means to an output: an in-place op's result is the same memory.
struct Alias {
  int32_t output, input;
};

/// Shape and dtype inference: reads op.inputs() and attributes, appends one type per output. Throws Error;
/// the builder adds the op's name and the user's line. The op is not yet part of a graph.
using InferFn = void (*)(const Op& op, std::vector<TensorType>& out);

class GradContext;
/// Builds the adjoint: reads grads of outputs, sets grads of inputs.
using GradFn = void (*)(GradContext& ctx);

/// How one output reads its input as memory: same buffer, another layout. False: not expressible as strides.
struct View {
  Layout layout;
  int64_t elementOffset = 0;
};
using ViewFn = bool (*)(const Op& op, const Layout& input, View& out);

class ExprContext;
/// The arithmetic of an elementwise op, written once over symbolic values.
using ExprFn = void (*)(ExprContext& ctx);
/// The new value of an element that an op changes on the way.
using UpdateFn = kernels::Val (*)(kernels::Val old);

/// Layouts for which a kernel is to be made; inputs absent (optional) have rank -1 flagged by `present`.
struct KernelContext {
  const Op& op;
  std::vector<Layout> inputs;  ///< only inputs that are present
  std::vector<Layout> outputs;
  std::vector<bool> fixed;  ///< of each of these inputs: its memory is the same in all runs
};
using KernelFn = kernels::KernelPtr (*)(const KernelContext& ctx);
/// One kernel for the op and an elementwise group over the positions of its result; its operands are those of
/// the op's kernel, then the group's. Null where two kernels are better.
using GroupKernelFn = kernels::KernelPtr (*)(const KernelContext& ctx, const kernels::ElementwiseSpec& group);

/// What a collective does to the memory of all replicas, and what it means: the results of all replicas from
/// the operands of all.
using CollectiveFn = kernels::CollectivePtr (*)(const Op& op);
using CollectiveReferenceFn = void (*)(const Op& op, std::span<const Array> in, std::span<Array> out);

/// Ops the executor runs itself.
enum class Structure : uint8_t {
  kNone,
  kCall,
  kRepeat,
  kConditional,
  kHostLoad,
  kHostStore,
  kPrint,
  kInit,
  kNothing,  ///< nothing is left to do
  kRemoteLoad,
  kRemoteStore,
  kCollective
};

/// Whether a function of the op's name is generated for programs.
enum class Visibility : uint8_t {
  kPublic,   ///< in C++ and Python, from the table
  kManual,   ///< in C++ from the table; the Python function is written by hand
  kInternal  ///< made by transforms and other ops only
};

/// The description of one op, from which everything else is derived.
struct OpDef {
  std::string_view name = "";       ///< text form and function name: "add"
  std::string_view type = "";       ///< compatibility op type: "Add"
  std::string_view className = "";  ///< compatibility class, e.g. "AddOp"; empty: type + "Op"
  std::string_view doc = "";        ///< one sentence
  std::vector<OperandDef> operands = {};
  std::vector<AttrDef> attrs = {};
  std::vector<ResultDef> results = {{"out"}};
  InferFn infer = nullptr;
  GradFn grad = nullptr;       ///< null: an error when a gradient has to pass, unless it stops here
  bool derived = false;        ///< made from the arithmetic of another entry, not written down
  bool stopsGradient = false;  ///< the result is not smooth in the operands, or is meant as a constant
  Visibility visibility = Visibility::kPublic;

  // In-place use: `name_` in the text; its type defaults to type + "Inplace".
  int32_t inplaceOperand = -1;  ///< operand whose memory output 0 takes over; -1: no in-place variant
  std::string_view inplaceType = "";
  bool inplaceModifies = true;             ///< false for views: aliases without writing
  bool alwaysInplace = false;              ///< var updates: the op exists only in place
  std::vector<int32_t> alsoModifies = {};  ///< further operands that every use writes (a step counter, ...)
  UpdateFn update = nullptr;   ///< what their elements become before the op's own arithmetic reads them
  bool inplaceCopies = false;  ///< the result is an alias to the ambiguity check, but memory of its own

  /// Operand that is an exponent of two: running the op fails unless it is in [-32, 32). -1: none.
  int32_t log2ScaleOperand = -1;

  // Effects.
  bool random = false;      ///< a pure function of its seed operand, but never merged
  bool sideEffect = false;  ///< never removed: host_store, print, ...

  // How it runs: exactly one of expr (with optional reduction), view, kernel, structure.
  ExprFn expr = nullptr;
  /// With expr: reduce over the axes on which the output's (kept) shape is 1 and the space is not.
  bool reducesToOutput = false;
  /// With expr: reduction kind and axes; the space is input 0's shape.
  kernels::Reduction reduction = kernels::Reduction::kSum;
  bool reducesAxes = false;  ///< axes from attribute "axes" (empty: all), "keepdims"
  ViewFn view = nullptr;
  ViewFn unview = nullptr;  ///< the operand's layout for which the result has a given one, where there is one
  KernelFn kernel = nullptr;
  GroupKernelFn groupKernel = nullptr;
  ReferenceFn reference = nullptr;  ///< with kernel: what the kernel is compared with
  bool stridedInputs = false;       ///< the kernel takes inputs of any strides; else they are made contiguous
  /// Whether the kernel is so much faster on channels-last operands that they are worth bringing there.
  bool (*prefersChannelsLast)(const Op& op) = nullptr;
  bool stridedOutputs = false;  ///< the kernel writes results of any strides
  bool joins = false;           ///< the result is the operands one after another on attribute "axis"
  Structure structure = Structure::kNone;
  CollectiveFn collective = nullptr;  ///< with kCollective, which has one operand and one result
  CollectiveReferenceFn collectiveReference = nullptr;

  std::string inplaceName() const { return std::string(name) + "_"; }
  int32_t attrIndex(std::string_view attr) const;  ///< -1 when there is none
};

/// All ops by name. The text form and the builder look ops up here.
class OpTable {
 public:
  explicit OpTable(std::vector<OpDef> defs);
  const std::vector<OpDef>& all() const { return defs_; }
  /// Null when there is none. `inplace` tells that the name was an in-place one.
  const OpDef* find(std::string_view name, bool* inplace = nullptr) const;

 private:
  std::vector<OpDef> defs_;
  std::vector<std::pair<std::string, int32_t>> byName_;  // sorted; negative: in-place use of ~index
};

}  // namespace popxl::ir
