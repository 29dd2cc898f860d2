#include <algorithm>

#include "ops/define.h"

// Optimiser arithmetic: ops that write the variable that they are given, and the terms to write.
namespace popxl::ops {

namespace {

void sameShapes(const Op& op, Types& out) {
  requireSameShape(op, 0, 1);
  for (size_t i = 2; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr) requireScalar(op, i);
  }
  sameType(op, out);
}

/// The scalar operand when it is there, else the attribute, as a number of type `type`.
Val scalar(ExprContext& c, size_t operand, std::string_view attr, VType type) {
  if (c.has(operand)) return c.element(operand, 0).convert(type);
  return c.constant(type, c.op.attrOr<double>(attr, 0.0));
}

OpDef updating(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.visibility = Visibility::kManual;
  def.inplaceOperand = 0;
  def.alwaysInplace = true;
  return def;
}

constexpr std::string_view kModes[] = {"add", "add_square", "mean", "moving_average",
                                       "moving_average_square"};

void inferAccumulate(const Op& op, Types& out) {
  const auto& mode = op.attr<std::string>("mode");
  if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
    fail(ErrorKind::kValue,
         "`mode` is \"{}\"; it must be \"add\", \"add_square\", \"mean\", \"moving_average\" or "
         "\"moving_average_square\"",
         mode);
  }
  sameShapes(op, out);
}

void accumulateExpr(ExprContext& c) {
  const VType type = commonReal(c.in(0), c.in(1));
  const Val t = c.in(0).convert(type), f = scalar(c, 2, "factor", type);
  Val x = c.in(1).convert(type);
  const auto& mode = c.op.attr<std::string>("mode");
  if (mode == "add_square" || mode == "moving_average_square") x = x * x;
  if (mode == "mean") {
    const Val weight = 1.0 / (f + 1.0);
    store(c, (1.0 - weight) * t + weight * x);
  } else if (mode == "add" || mode == "add_square") {
    store(c, t + f * x);
  } else {
    store(c, f * t + (1.0 - f) * x);
  }
}

void accumulate(Defs& defs) {
  OpDef def = updating({"accumulate_", "Accumulate",
                        "Adds a tensor of the same shape to a variable, in one of several ways."});
  def.operands = {{"t", ir::kNumeric, "The variable."},
                  {"X", ir::kNumeric, "What is added."},
                  {"f", ir::kNumeric, "The factor as a tensor.", Arity::kOptional}};
  def.attrs = {{"mode", AttrType::kString,
                "\"add\": t + f X; \"add_square\": t + f X^2; \"mean\": of f values so far and X; "
                "\"moving_average\": f t + "
                "(1 - f) X; \"moving_average_square\": f t + (1 - f) X^2.",
                textAttr("add")},
               {"factor", AttrType::kFloat, "The factor when there is no tensor for it.", Attr(1.0)}};
  def.infer = inferAccumulate;
  def.expr = accumulateExpr;
  defs.push_back(def);

  OpDef scale = updating({"accumulator_scale_", "AccumulatorScale", "Multiplies a variable by a number."});
  scale.operands = {{"t", ir::kNumeric, "The variable."},
                    {"f", ir::kNumeric, "The number as a tensor.", Arity::kOptional}};
  scale.attrs = {{"factor", AttrType::kFloat,
                  "The number when there is no tensor for it; 0 sets all elements to 0.", Attr(1.0)}};
  scale.infer = [](const Op& op, Types& out) {
    if (op.input(1) != nullptr) requireScalar(op, 1);
    sameType(op, out);
  };
  scale.expr = [](ExprContext& c) {
    if (!c.has(1) && c.op.attr<double>("factor") == 0) {
      store(c, c.in(0).constant(0));  // also where an element is not finite
      return;
    }
    const Val t = real(c.in(0));
    store(c, t * scalar(c, 1, "factor", t.type()));
  };
  defs.push_back(scale);
}

void copyVarUpdate(Defs& defs) {
  OpDef def = updating(
      {"copy_var_update_", "CopyVarUpdate", "Gives a variable the values of a tensor of the same type."});
  def.operands = {{"t", ir::kAny, "The variable."}, {"X", ir::kAny, "Its new values."}};
  def.infer = [](const Op& op, Types& out) {
    requireSameShape(op, 0, 1);
    requireSameDType(op, 0, 1);
    sameType(op, out);
  };
  def.expr = [](ExprContext& c) { store(c, c.in(1)); };
  defs.push_back(def);
}

// --- Adam, AdaMax and LAMB

enum AdamOperand : size_t { kFirst, kSecond, kWeight, kStep, kDecay, kBeta1, kBeta2, kEpsilon };

bool given(const Op& op, size_t operand, std::string_view attr) {
  return op.input(operand) != nullptr || op.hasAttr(attr);
}

void inferAdamUpdater(const Op& op, Types& out) {
  const auto& mode = op.attr<std::string>("mode");
  if (mode != "adam" && mode != "lamb" && mode != "adamax") {
    fail(ErrorKind::kValue, "`mode` is \"{}\"; it must be \"adam\", \"lamb\" or \"adamax\"", mode);
  }
  const bool decays = op.input(kDecay) != nullptr || op.attrOr<double>("weight_decay_value", 0.0) != 0;
  if (decays && op.input(kWeight) == nullptr) {
    fail(ErrorKind::kValue, "Weight decay requires weight to not be None.");
  }
  const bool adamax = mode == "adamax", corrected = op.input(kStep) != nullptr;
  if (adamax && !corrected) fail(ErrorKind::kValue, "AdaMax requires time_step to not be None.");
  if (corrected && (!given(op, kBeta1, "beta1_value") || (!adamax && !given(op, kBeta2, "beta2_value")))) {
    fail(ErrorKind::kValue, "Bias correction requires both beta1 and beta2 to not be None.");
  }
  requireSameShape(op, kFirst, kSecond);
  if (op.input(kWeight) != nullptr) requireSameShape(op, kFirst, kWeight);
  for (size_t i : {kStep, kDecay, kBeta1, kBeta2, kEpsilon}) {
    if (op.input(i) != nullptr) requireScalar(op, i);
  }
  out.push_back(typeOf(op, op.input(kWeight) != nullptr ? kWeight : kFirst));
}

/// 1 / (1 - beta^t), as elements are divided more slowly than multiplied. In float64: beta is close to 1. It
/// is the same for all elements, so it is computed once.
Val correction(ExprContext& c, size_t operand, std::string_view attr, VType type) {
  const Val beta = scalar(c, operand, attr, VType::kF64), t = c.element(kStep, 0).convert(VType::kF64);
  return (1.0 / (1.0 - kernels::binary(Prim::kPow, beta, t))).convert(type);
}

void adamUpdaterExpr(ExprContext& c) {
  const VType type = commonReal(c.in(kFirst), c.in(kSecond));
  const bool adamax = c.op.attr<std::string>("mode") == "adamax", corrected = c.has(kStep);
  Val m = c.in(kFirst).convert(type), v = c.in(kSecond).convert(type);
  if (corrected) m = m * correction(c, kBeta1, "beta1_value", type);
  if (corrected && !adamax) v = v * correction(c, kBeta2, "beta2_value", type);
  Val step = m / ((adamax ? v : sqrt(v)) + scalar(c, kEpsilon, "epsilon_value", type));
  if (c.has(kDecay) || c.op.attrOr<double>("weight_decay_value", 0.0) != 0) {
    step = step + scalar(c, kDecay, "weight_decay_value", type) * c.in(kWeight).convert(type);
  }
  store(c, step);
}

void adamUpdater(Defs& defs) {
  OpDef def;
  def.name = "adam_updater";
  def.type = "AdamUpdater";
  def.doc = "The term by which Adam, LAMB or AdaMax change a weight; counts the time step up first.";
  const auto optional = [](std::string_view name, std::string_view doc) {
    return ir::OperandDef{name, ir::kNumeric, doc, Arity::kOptional};
  };
  def.operands = {
      {"acc_first_order", ir::kNumeric, "First moment."},
      {"acc_second_order", ir::kNumeric, "Second moment; for AdaMax the infinity norm."},
      optional("weight", "The weight, for weight decay."),
      optional("time_step", "Number of steps so far; with it moments are corrected for their bias."),
      optional("weight_decay", "Weight decay as a tensor."),
      optional("beta1", "Decay of the first moment as a tensor."),
      optional("beta2", "Decay of the second moment as a tensor."),
      optional("epsilon", "Added to the denominator, as a tensor.")};
  def.attrs = {
      {"mode", AttrType::kString, "\"adam\", \"lamb\" or \"adamax\".", textAttr("adam")},
      {"weight_decay_value", AttrType::kFloat, "Weight decay when there is no tensor for it.", {}, true},
      {"beta1_value",
       AttrType::kFloat,
       "Decay of the first moment when there is no tensor for it.",
       {},
       true},
      {"beta2_value",
       AttrType::kFloat,
       "Decay of the second moment when there is no tensor for it.",
       {},
       true},
      {"epsilon_value", AttrType::kFloat, "Added to the denominator when there is no tensor for it.",
       Attr(1e-7)}};
  def.infer = inferAdamUpdater;
  def.visibility = Visibility::kManual;
  def.alsoModifies = {kStep};
  def.update = [](Val step) { return step + 1.0; };
  def.expr = adamUpdaterExpr;
  defs.push_back(def);
}

/// var -= rate * ratio * x, where ratio = min(|var|, max_weight_norm) / |x|, or 1 where one of these is 0.
void adamVarUpdateExpr(ExprContext& c) {
  const VType type = commonReal(c.in(0), c.in(1));
  Val rate = scalar(c, 4, "learning_rate_value", type);
  if (c.has(5) || c.op.attrOr<double>("max_weight_norm_value", 0.0) != 0) {
    const Val limit = scalar(c, 5, "max_weight_norm_value", type);
    const Val weight = c.element(2, 0).convert(type), change = c.element(3, 0).convert(type);
    const Val none = weight.constant(0), one = weight.constant(1);
    Val ratio = min(sqrt(weight), limit) / sqrt(change);
    for (const Val part : {weight, change, limit}) ratio = select(eq(part, none), one, ratio);
    rate = rate * ratio;
  }
  store(c, c.in(0).convert(type) - rate * c.in(1).convert(type));
}

void adamVarUpdate(Defs& defs) {
  OpDef def = updating({"adam_var_update", "AdamVarUpdate",
                        "Changes a weight by the term of adam_updater; for LAMB by its trust ratio."});
  def.operands = {{"t", ir::kNumeric, "The weight."},
                  {"x", ir::kNumeric, "The term."},
                  {"r1", ir::kNumeric, "Sum of squares of the weight."},
                  {"r2", ir::kNumeric, "Sum of squares of the term."},
                  {"learning_rate", ir::kNumeric, "Learning rate as a tensor.", Arity::kOptional},
                  {"max_weight_norm", ir::kNumeric, "Largest norm of the weight that counts, as a tensor.",
                   Arity::kOptional}};
  def.attrs = {
      {"learning_rate_value", AttrType::kFloat, "Learning rate when there is no tensor for it.", {}, true},
      {"max_weight_norm_value",
       AttrType::kFloat,
       "Largest norm of the weight that counts when there is no tensor for it; absent or 0: the ratio is 1.",
       {},
       true}};
  def.infer = sameShapes;
  def.expr = adamVarUpdateExpr;
  defs.push_back(def);

  OpDef square;
  square.name = "lamb_square";
  square.type = "LambSquare";
  square.doc = "Sum of the squares of all elements, in float32.";
  square.operands = {{"t", ir::kNumeric}};
  square.results = {{"out", "A float32 scalar."}};
  square.infer = [](const Op&, Types& out) { out.push_back({DType::kFloat32, {}, {}}); };
  square.stopsGradient = true;
  square.reducesToOutput = true;
  square.expr = [](ExprContext& c) {
    const Val x = real(c.in(0));
    store(c, x * x);
  };
  defs.push_back(square);
}

}  // namespace

void varUpdates(Defs& defs) {
  accumulate(defs);
  copyVarUpdate(defs);
  adamUpdater(defs);
  adamVarUpdate(defs);
}

}  // namespace popxl::ops
