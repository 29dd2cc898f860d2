#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/elementwise.h"
#include "kernels/philox.h"
#include "ops/composite.h"
#include "ops/define.h"

// Random numbers are a pure function of the seed operand, the kind of op and the element's position.
namespace popxl::ops {

namespace {

enum Stream : uint32_t { kDropout = 0, kNormal = 1, kUniform = 2 };

void requireSeed(const Op& op, size_t operand) {
  if (typeOf(op, operand).numElements() == 2) return;
  fail(ErrorKind::kGraph, "{} must have two elements: a seed is two uint32 numbers", describe(op, operand));
}

void inferRandom(const Op& op, Types& out) {
  requireSeed(op, 0);
  for (int64_t size : ints(op, "shape")) {
    if (size < 0)
      fail(ErrorKind::kValue, "the shape {} has a negative dimension", toString(ints(op, "shape")));
  }
  out.push_back({op.attr<DType>("dtype"), ints(op, "shape"), {}});
}

void requireProbability(const Op& op, std::string_view attr) {
  const double p = op.attr<double>(attr);
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::kValue, "`{}` is {}; a probability lies in [0, 1]", attr, p);
}

constexpr ir::DTypes kSeed = ir::bit(DType::kUInt32);

OpDef draw(const Names& names, const ir::AttrDef& first, const ir::AttrDef& second) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"seed_tensor", kSeed, "Two numbers that decide all elements."}};
  def.attrs = {{"shape", AttrType::kInts, "Shape of the result."},
               first,
               second,
               {"dtype", AttrType::kDType, "Dtype of the result.", Attr(DType::kFloat32)}};
  def.results = {{"out", "A tensor of that shape and dtype."}};
  def.infer = inferRandom;
  def.stopsGradient = true;
  def.random = true;
  return def;
}

/// The random words of a seed operand and a stream.
class Words {
 public:
  Words(const ReferenceContext& c, Stream stream)
      : seed_{static_cast<uint32_t>(c.in[0][0].integer()), static_cast<uint32_t>(c.in[0][1].integer())},
        stream_(stream) {}
  uint32_t word(int64_t i) const {
    return kernels::philox(seed_[0], seed_[1], static_cast<uint64_t>(i), stream_);
  }
  uint64_t pair(int64_t i) const { return word(2 * i) | uint64_t{word(2 * i + 1)} << 32; }

 private:
  uint32_t seed_[2];
  Stream stream_;
};

/// The values of normal distributions come in pairs, by Box and Muller from two uniform numbers: a radius
/// from (0, 1] and an angle. float64 takes 53 bits for each, others 32 for the radius and 24 for the angle.
void normalReference(ReferenceContext& c) {
  const Words words(c, kNormal);
  Array& out = c.out[0];
  const bool wide = out.dtype() == DType::kFloat64;
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t first = i / 2 * 2, second = first + 1;
    const double u = wide ? static_cast<double>((words.pair(first) >> 11) + 1) * 0x1p-53
                          : (static_cast<double>(words.word(first)) + 1) * 0x1p-32;
    const double turn = wide ? static_cast<double>(words.pair(second) >> 11) * 0x1p-53
                             : static_cast<double>(words.word(second) >> 8) * 0x1p-24;
    const double radius = c.op.attr<double>("std") * std::sqrt(-2 * std::log(u));
    const double angle = 2 * std::numbers::pi * turn;
    out[i] = c.op.attr<double>("mean") + radius * (i == first ? std::cos(angle) : std::sin(angle));
  }
}

/// low + floor(u * count), u from 32 bits for up to 2^32 integers, from 64 bits for more.
Number uniformInteger(const Words& words, int64_t i, DType dtype, double low, double high) {
  const Number first = Number(std::min(std::ceil(low), 0x1p62)).to(dtype), last = Number(INFINITY).to(dtype);
  const double wanted = std::clamp(std::ceil(high) - first.real(), 1.0, 0x1p63);
  const uint64_t room = static_cast<uint64_t>(last.integer()) - static_cast<uint64_t>(first.integer());
  const uint64_t count = std::min(static_cast<uint64_t>(wanted) - 1, room) + 1;
  const uint64_t bits = count > (uint64_t{1} << 32) ? words.pair(i) : uint64_t{words.word(i)} << 32;
  const auto offset = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >> 64);
  return first + Number::integer(static_cast<int64_t>(offset));
}

/// 24 random bits, 53 for float64. What would be rounded to `high` is the value next to it.
Number uniformFloat(const Words& words, int64_t i, DType dtype, double low, double high) {
  const double u = dtype == DType::kFloat64 ? static_cast<double>(words.pair(i) >> 11) * 0x1p-53
                                            : static_cast<double>(words.word(i) >> 8) * 0x1p-24;
  if (!(low < high)) return low;
  double value = low + u * (high - low);
  const double step = (high - low) * 0x1p-54;
  for (int64_t k = 1; !(Number(value).to(dtype).real() < high) && value > low; k *= 2) {
    value = std::max(low, high - step * static_cast<double>(k));
  }
  return value;
}

void uniformReference(ReferenceContext& c) {
  const Words words(c, kUniform);
  Array& out = c.out[0];
  const double low = c.op.attr<double>("low"), high = c.op.attr<double>("high");
  for (int64_t i = 0; i < out.size(); ++i) {
    out[i] = isFloat(out.dtype()) ? uniformFloat(words, i, out.dtype(), low, high)
                                  : uniformInteger(words, i, out.dtype(), low, high);
  }
}

void distributions(Defs& defs) {
  OpDef normal = draw({"random_normal", "RandomNormal", "Random numbers of a normal distribution."},
                      {"mean", AttrType::kFloat, "Mean.", Attr(0.0)},
                      {"std", AttrType::kFloat, "Standard deviation.", Attr(1.0)});
  normal.infer = [](const Op& op, Types& out) {
    inferRandom(op, out);
    if ((ir::bit(out.back().dtype) & ir::kFloats) == 0) {
      fail(ErrorKind::kType, "a normal distribution can't be drawn as {}; use float16, float32 or float64",
           nameOf(out.back().dtype));
    }
  };
  normal.kernel = [](const ir::KernelContext& c) {
    return kernels::makeRandomNormal(c.inputs[0], c.outputs[0], c.op.attr<double>("mean"),
                                     c.op.attr<double>("std"), kNormal);
  };
  normal.reference = normalReference;
  defs.push_back(normal);

  OpDef uniform =
      draw({"random_uniform", "RandomUniform", "Random numbers of a uniform distribution on [low, high)."},
           {"low", AttrType::kFloat, "Lower end.", Attr(0.0)},
           {"high", AttrType::kFloat, "Upper end.", Attr(1.0)});
  uniform.kernel = [](const ir::KernelContext& c) {
    return kernels::makeRandomUniform(c.inputs[0], c.outputs[0], c.op.attr<double>("low"),
                                      c.op.attr<double>("high"), kUniform);
  };
  uniform.reference = uniformReference;
  defs.push_back(uniform);
}

/// 32 random bits decide: kept when they are at least p * 2^32.
void dropoutExpr(ExprContext& c) {
  const double p = c.op.attr<double>("p");
  const Val x = real(c.in(0));
  const Val bits = kernels::philox(c.element(1, 0), c.element(1, 1), kDropout);
  const double threshold = std::round(p * 0x1p32);
  if (threshold >= 0x1p32) {
    store(c, x.constant(0));
  } else {
    store(c, select(bits >= threshold, x * (1.0 / (1.0 - p)), x.constant(0)));
  }
}

void dropout(Defs& defs) {
  OpDef def;
  def.name = "dropout";
  def.type = "Dropout";
  def.doc = "Sets elements to 0 at random and scales the others by 1 / (1 - p).";
  def.operands = {{"t", ir::kNumeric},
                  {"seed_tensor", kSeed, "Two numbers that decide which elements are kept."}};
  def.attrs = {{"p", AttrType::kFloat, "Probability of 0."}};
  def.infer = [](const Op& op, Types& out) {
    requireSeed(op, 1);
    requireProbability(op, "p");
    sameType(op, out);
  };
  def.grad = [](GradContext& c) { c.set(0, c.make("dropout", {c.outGrad(), c.input(1)}, c.op.attrs())); };
  def.random = true;
  def.expr = dropoutExpr;
  defs.push_back(def);
}

// --- shaped dropout

/// Whether an element of a mask of this shape is kept.
kernels::KernelPtr maskKernel(const Layout& seed, const Layout& mask, double p) {
  kernels::ElementwiseSpec spec;
  const auto half = [&](int64_t i) { return kernels::input(spec.expr, 0, VType::kU32, i); };
  const Val bits = kernels::philox(half(0), half(1), kDropout);
  const double threshold = std::round(p * 0x1p32);
  spec.expr.outputs() = {(threshold < 0x1p32 ? bits >= threshold : bits.constant(0)).id};
  spec.space = mask.shape;
  spec.inputs = {seed};
  spec.outputs = {mask};
  return kernels::makeElementwise(std::move(spec));
}

kernels::KernelPtr maskedKernel(const Layout& t, const Layout& mask, const Layout& out, double p) {
  kernels::ElementwiseSpec spec;
  const VType type = kernels::computeType(out.dtype);
  const Val x = real(kernels::input(spec.expr, 0, kernels::computeType(t.dtype)));
  const Val kept = kernels::input(spec.expr, 1, VType::kU32);
  const Val scaled = p < 1 ? x * (1.0 / (1.0 - p)) : x;
  spec.expr.outputs() = {select(kept, scaled, x.constant(0)).convert(type).id};
  spec.space = out.shape;
  spec.inputs = {t, mask};
  spec.outputs = {out};
  return kernels::makeElementwise(std::move(spec));
}

void shapedDropoutReference(ReferenceContext& c) {
  const double p = c.op.attr<double>("ratio"), scale = p < 1 ? 1.0 / (1.0 - p) : 1.0;
  const auto seed = [&](int64_t i) { return static_cast<uint32_t>(c.in[1][i].integer()); };
  Array kept(DType::kBool, ints(c.op, "shape"));
  for (int64_t i = 0; i < kept.size(); ++i) {
    const uint32_t bits = kernels::philox(seed(0), seed(1), static_cast<uint64_t>(i), kDropout);
    kept[i] = Number::integer(static_cast<double>(bits) >= std::round(p * 0x1p32));
  }
  ir::forEachIndex(c.out[0].shape(), [&](const Shape& index) {
    if (kept.at(index).integer() != 0) c.out[0].at(index) = c.in[0].at(index) * Number(scale);
  });
}

void shapedDropout(Defs& defs) {
  OpDef def;
  def.name = "shaped_dropout";
  def.type = "ShapedDropout";
  def.doc = "Sets parts of a tensor to 0 at random and scales the others by 1 / (1 - ratio).";
  def.operands = {{"t", ir::kNumeric},
                  {"seed_tensor", kSeed, "Two numbers that decide which parts are kept."}};
  def.attrs = {
      {"shape", AttrType::kInts, "Shape that broadcasts to that of `t`: each element decides a part."},
      {"ratio", AttrType::kFloat, "Probability of 0."}};
  def.infer = [](const Op& op, Types& out) {
    requireSeed(op, 1);
    requireProbability(op, "ratio");
    Shape joint;
    if (!broadcastShapes(ints(op, "shape"), typeOf(op, 0).shape, joint) || joint != typeOf(op, 0).shape) {
      fail(ErrorKind::kValue, "`shape` {} does not broadcast to that of {}", toString(ints(op, "shape")),
           describe(op, 0));
    }
    sameType(op, out);
  };
  def.grad = [](GradContext& c) {
    c.set(0, c.make("shaped_dropout", {c.outGrad(), c.input(1)}, c.op.attrs()));
  };
  def.random = true;
  def.kernel = [](const ir::KernelContext& c) {
    const Layout mask(DType::kBool, ints(c.op, "shape"));
    const double p = c.op.attr<double>("ratio");
    Composite all(3);
    const int32_t between = all.scratch(mask.bytes());
    all.step(maskKernel(c.inputs[1], mask, p), {1, between})
        .step(maskedKernel(c.inputs[0], mask, c.outputs[0], p), {0, between, 2});
    return std::move(all).make();
  };
  def.reference = shapedDropoutReference;
  defs.push_back(def);
}

void splitSeedReference(ReferenceContext& c) {
  const auto modifier = static_cast<uint64_t>(c.in[1][0].integer());
  const auto words = kernels::philoxBlock(
      {static_cast<uint32_t>(modifier), static_cast<uint32_t>(modifier >> 32), 0,
       static_cast<uint32_t>(kernels::PhiloxUse::kSeeds)},
      static_cast<uint32_t>(c.in[0][0].integer()), static_cast<uint32_t>(c.in[0][1].integer()));
  for (int64_t i = 0; i < 2; ++i) c.out[0][i] = Number::integer(words[static_cast<size_t>(i)]);
}

void seeds(Defs& defs) {
  OpDef def;
  def.name = "modify_random_seed";
  def.type = "ModifyRandomSeed";
  def.doc = "A new seed that depends on a seed and a number.";
  def.operands = {{"seed", kSeed, "Two numbers."},
                  {"modifier", ir::kInts, "Different numbers give independent seeds."}};
  def.infer = [](const Op& op, Types& out) {
    requireSeed(op, 0);
    requireScalar(op, 1);
    sameType(op, out);
  };
  def.stopsGradient = true;
  def.visibility = Visibility::kManual;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeSplitSeed(c.inputs[0], c.inputs[1], c.outputs[0]);
  };
  def.reference = splitSeedReference;
  defs.push_back(def);
}

}  // namespace

void random(Defs& defs) {
  distributions(defs);
  dropout(defs);
  shapedDropout(defs);
  seeds(defs);
}

}  // namespace popxl::ops
