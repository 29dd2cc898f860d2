#include "api/custom_def.h"

#include <algorithm>
#include <cctype>

#include "api/custom_gradient.h"
#include "api/custom_kernel.h"
#include "base/error.h"
#include "ir/lexer.h"
#include "ir/text_values.h"
#include "ir/token_reader.h"
#include "ops/define.h"

namespace popxl::api {
namespace {

using ir::Op;
using ops::kept;
using Types = std::vector<ir::TensorType>;

/// What ops of a program's own compute with: everything but complex numbers.
constexpr ir::DTypes kDTypes = ir::kNumeric | ir::kFloat8s | ir::kBools;
constexpr std::string_view kLike = "like_";  // no attribute of the user's ends like this

std::string camelCase(std::string_view name) {
  std::string out;
  bool capital = true;
  for (const char c : name) {
    if (c != '_') out += capital ? static_cast<char>(std::toupper(c)) : c;
    capital = c == '_';
  }
  return out;
}

ir::AttrDef attrDef(const AttrSpec& spec) {
  ir::AttrDef def{kept(spec.name), static_cast<ir::AttrType>(spec.fallback.index()), kept(spec.doc)};
  if (!spec.required)
    def.fallback = std::visit([](const auto& value) { return ir::Attr(value); }, spec.fallback);
  return def;
}

void inferCustom(const Op& op, Types& out) {
  const Custom& custom = customOf(op.def());
  const OpUse use = useOf(op);
  std::vector<TensorSpec> specs;
  if (custom.op.infer != nullptr) {
    specs = apart(op.graph().ir().table(),
                  [&] { return guarded(ErrorKind::kGraph, [&] { return custom.op.infer(use); }); });
  } else if (custom.op.compose != nullptr) {
    for (const ir::Tensor* t : bodyOf(op)->outputs()) specs.push_back({t->shape(), t->dtype()});
  } else {
    specs.assign(custom.op.results.size(), use.operands.front());
  }
  if (specs.size() != custom.op.results.size()) {
    fail(ErrorKind::kGraph, "the op has {} results; its `infer` gave {}", custom.op.results.size(),
         specs.size());
  }
  for (TensorSpec& spec : specs) {
    const bool negative = std::any_of(spec.shape.begin(), spec.shape.end(), [](int64_t d) { return d < 0; });
    if (negative || (ir::bit(spec.dtype) & kDTypes) == 0) {
      fail(ErrorKind::kGraph, "its `infer` gave {} of shape {}, which no tensor can be", nameOf(spec.dtype),
           toString(spec.shape));
    }
    out.push_back({spec.dtype, std::move(spec.shape), {}});
  }
}

/// The types that attribute `like_` of a gradient lists.
void inferLike(const Op& op, Types& out) {
  const std::string& text = op.attr<std::string>(kLike);
  ir::Lexer lexer(text);
  ir::TokenReader reader(lexer);
  reader.expect("[", "before types");
  reader.list("]", [&] { out.push_back(reader.type()); });
}

/// What an op on arrays and its gradient have in common.
ir::OpDef arrayDef(const std::shared_ptr<const Custom>& custom, const std::string& name) {
  ir::OpDef def;
  def.name = kept(name);
  def.type = kept(camelCase(name));
  for (const AttrSpec& attr : custom->op.attrs) def.attrs.push_back(attrDef(attr));
  return def;
}

ir::OpDef gradientDef(const std::shared_ptr<const Custom>& custom) {
  ir::OpDef def = arrayDef(custom, custom->op.name + "_grad");
  def.doc = kept("Gradient of " + custom->op.name + ".");
  for (const std::string& name : custom->op.gradientReads) def.operands.push_back({kept(name), kDTypes});
  def.results = {{"grads", "", true}};
  def.attrs.push_back({kLike, ir::AttrType::kString, "Types of the operands whose gradients these are."});
  def.visibility = ir::Visibility::kInternal;
  def.infer = inferLike;
  def.kernel = [](const ir::KernelContext& c) { return arrayKernel(c.op, customOf(c.op.def()).op.gradient); };
  def.reference = [](ir::ReferenceContext& c) { runOnArrays(c, customOf(c.op.def()).op.gradient); };
  return def;
}

}  // namespace

std::vector<std::string> gradientOperands(const CustomOp& op) {
  std::vector<std::string> names;
  for (const std::string& result : op.results) names.push_back("grad_" + result);
  names.insert(names.end(), op.operands.begin(), op.operands.end());
  names.insert(names.end(), op.results.begin(), op.results.end());
  return names;
}

std::shared_ptr<const ir::Graph> bodyOf(const Op& op) {
  const Custom& custom = customOf(op.def());
  const OpUse use = useOf(op);
  const Trace trace = guarded(ErrorKind::kGraph, [&] {
    return custom.bodies.of(op.def(), custom.op.operands, custom.op.compose, use);
  });
  if (trace.results.size() != custom.op.results.size() ||
      std::count(trace.results.begin(), trace.results.end(), nullptr) > 0) {
    fail(ErrorKind::kGraph, "the op has {} results; its composition gave {}", custom.op.results.size(),
         trace.graph->outputs().size());
  }
  return trace.graph;
}

void addDefs(CustomOp op, std::vector<ir::AddedOp>& defs) {
  if (op.gradientReads.empty()) op.gradientReads = gradientOperands(op);
  const auto custom = std::make_shared<const Custom>(std::move(op));
  ir::OpDef def = arrayDef(custom, custom->op.name);
  def.doc = custom->op.doc.empty() ? "An op of the program's own." : kept(custom->op.doc);
  for (const std::string& name : custom->op.operands) def.operands.push_back({kept(name), kDTypes});
  def.results.clear();
  for (const std::string& name : custom->op.results) def.results.push_back({kept(name)});
  def.infer = inferCustom;
  if (custom->op.compose != nullptr) {
    def.grad = differentiateBody;
  } else {
    def.kernel = [](const ir::KernelContext& c) {
      return arrayKernel(c.op, customOf(c.op.def()).op.forward);
    };
    def.reference = [](ir::ReferenceContext& c) { runOnArrays(c, customOf(c.op.def()).op.forward); };
  }
  if (custom->op.composeGradient != nullptr) def.grad = composeGradient;
  if (custom->op.gradient != nullptr) def.grad = makeGradientOp;
  defs.push_back({std::move(def), custom->op.compose != nullptr ? bodyOf : nullptr, custom});
  if (custom->op.gradient != nullptr) defs.push_back({gradientDef(custom), nullptr, custom});
}

}  // namespace popxl::api
