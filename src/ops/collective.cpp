#include "kernels/collective.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/ir.h"
#include "ops/define.h"

// Ops by which the replicas of a program exchange values. The executor runs them on all replicas at once.
namespace popxl::ops {

namespace {

using kernels::CollectiveReduction;
using kernels::ReplicaGroups;
using Arrays = std::span<const Array>;

ir::AttrDef groupAttr() {
  return {"group", AttrType::kInts,
          "Group of each replica, numbered in order of appearance; empty: all are one.", intsAttr({})};
}
ir::AttrDef opAttr() {
  return {"op", AttrType::kString, "How values are reduced: add, mean, mul, min, max, and, or, square_add.",
          textAttr("add")};
}

/// The replicas of each group. Error(kValue) unless the groups have one size and are numbered in order.
ReplicaGroups groupsOf(const Op& op) {
  const int64_t replicas = op.graph().ir().replicationFactor();
  const std::vector<int64_t>& assignment = ints(op, "group");
  ReplicaGroups groups(assignment.empty() ? 1 : 0);
  if (!assignment.empty() && static_cast<int64_t>(assignment.size()) != replicas) {
    fail(ErrorKind::kValue, "`group` names the groups of {} replicas; the program has {}", assignment.size(),
         replicas);
  }
  for (int64_t r = 0; r < replicas; ++r) {
    const int64_t group = assignment.empty() ? 0 : assignment[static_cast<size_t>(r)];
    if (group < 0 || group > static_cast<int64_t>(groups.size())) {
      fail(ErrorKind::kValue,
           "`group` must number groups 0, 1, 2, ... in the order in which they appear; "
           "replica {} is in group {}",
           r, group);
    }
    if (group == static_cast<int64_t>(groups.size())) groups.emplace_back();
    groups[static_cast<size_t>(group)].push_back(static_cast<int32_t>(r));
  }
  for (const auto& members : groups) {
    if (members.size() == groups.front().size()) continue;
    fail(ErrorKind::kValue, "all groups of a collective must have one size; there are groups of {} and of {}",
         groups.front().size(), members.size());
  }
  return groups;
}

int64_t groupSize(const Op& op) { return static_cast<int64_t>(groupsOf(op).front().size()); }

CollectiveReduction reductionOf(const Op& op) {
  return kernels::collectiveReduction(op.attr<std::string>("op"));
}

bool isLocal(const Op& op) { return op.attr<std::string>("op") == "local"; }

// --- what reductions mean

Number truth(bool value) { return Number::integer(value ? 1 : 0); }

Number combined(CollectiveReduction reduction, const Number& a, const Number& b) {
  switch (reduction) {
    case CollectiveReduction::kMul:
      return a * b;
    case CollectiveReduction::kMin:
      return std::isnan(a.real()) || a < b ? a : b;
    case CollectiveReduction::kMax:
      return std::isnan(a.real()) || b < a ? a : b;
    case CollectiveReduction::kAnd:
      return truth(a.real() != 0 && b.real() != 0);
    case CollectiveReduction::kOr:
      return truth(a.real() != 0 || b.real() != 0);
    case CollectiveReduction::kAdd:
    case CollectiveReduction::kMean:
    case CollectiveReduction::kSquareAdd:
      break;
  }
  return a + b;
}

Number entered(CollectiveReduction reduction, const Number& x) {
  const bool logical = reduction == CollectiveReduction::kAnd || reduction == CollectiveReduction::kOr;
  if (logical) return truth(x.real() != 0);
  return reduction == CollectiveReduction::kSquareAdd ? x * x : x;
}

/// The reduction of element i of the members' operands.
Number reduced(CollectiveReduction reduction, const std::vector<int32_t>& members, Arrays in, int64_t i) {
  const auto at = [&](int32_t m) { return entered(reduction, in[static_cast<size_t>(m)][i]); };
  Number sum = at(members.front());
  for (size_t k = 1; k < members.size(); ++k) sum = combined(reduction, sum, at(members[k]));
  if (reduction != CollectiveReduction::kMean) return sum;
  const auto size = static_cast<int64_t>(members.size());
  return sum.isFloat() ? Number(sum.real() / static_cast<double>(size))
                       : Number::integer(sum.integer() / size);
}

/// f(members, k, result) for every replica: member k of its group.
template <typename F>
void forMembers(const Op& op, std::span<Array> out, const F& f) {
  for (const std::vector<int32_t>& members : groupsOf(op)) {
    for (size_t k = 0; k < members.size(); ++k) f(members, k, out[static_cast<size_t>(members[k])]);
  }
}

// --- the ops

OpDef collectiveOp(const Names& names, ir::DTypes dtypes) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", dtypes}};
  def.structure = Structure::kCollective;
  def.visibility = Visibility::kManual;
  return def;
}

/// Error(kType) for a reduction of bools that gives none.
void requireLogical(const Op& op) {
  const std::string& reduction = op.attr<std::string>("op");
  if (typeOf(op, 0).dtype != DType::kBool || reduction == "and" || reduction == "or" || reduction == "local")
    return;
  fail(ErrorKind::kType, "{} can be reduced with and or or, not with {}", describe(op, 0), reduction);
}

/// Error(kGraph) where a gradient of a reduction is asked for that has none.
void requireLinear(const Op& op) {
  const std::string& reduction = op.attr<std::string>("op");
  if (reduction == "add" || reduction == "mean" || reduction == "local") return;
  fail(ErrorKind::kGraph, "`{}` has a gradient for the reductions add and mean, not for {}", op.name(),
       reduction);
}

OpDef allReduce() {
  OpDef def = collectiveOp({"replicated_all_reduce", "ReplicatedAllReduce",
                            "The reduction of a tensor over the replicas of a group, on each of them."},
                           ir::kNumeric | ir::kBools);
  def.attrs = {opAttr(), groupAttr()};
  def.inplaceOperand = 0;
  def.infer = [](const Op& op, Types& out) {
    groupsOf(op);
    reductionOf(op);
    requireLogical(op);
    sameType(op, out);
  };
  def.grad = [](GradContext& c) {
    requireLinear(c.op);
    c.set(0, c.make("replicated_all_reduce", {c.outGrad()}, c.op.attrs()));
  };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    return kernels::makeAllReduce({reductionOf(op), t.dtype, t.numElements(), groupsOf(op)});
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    forMembers(op, out, [&](const std::vector<int32_t>& members, size_t, Array& result) {
      for (int64_t i = 0; i < result.size(); ++i) result[i] = reduced(reductionOf(op), members, in, i);
    });
  };
  return def;
}

OpDef allGather() {
  OpDef def =
      collectiveOp({"replicated_all_gather", "ReplicatedAllGather",
                    "The tensors of a group's replicas, flat and one after another, on each of them."},
                   ir::kAny);
  def.attrs = {
      {"shape", AttrType::kInts, "Shape of the result; elements beyond it are dropped."},
      groupAttr(),
      {"sums_grads", AttrType::kBool,
       "Whether gradients of the replicas are summed; else they are taken to be equal.", Attr(false)}};
  def.infer = [](const Op& op, Types& out) {
    const Shape& shape = ints(op, "shape");
    const int64_t most = groupSize(op) * typeOf(op, 0).numElements();
    for (const int64_t size : shape) {
      if (size < 0) fail(ErrorKind::kValue, "`shape` {} has a negative size", toString(shape));
    }
    if (numElements(shape) > most) {
      fail(ErrorKind::kValue, "`shape` {} has {} elements; {} replicas have {} of {}", toString(shape),
           numElements(shape), groupSize(op), most, describe(op, 0));
    }
    out.push_back({typeOf(op, 0).dtype, shape, {}});
  };
  def.grad = [](GradContext& c) {
    const TensorType& t = c.op.input(0)->type();
    Tensor* part = c.make("replicated_reduce_scatter", {c.outGrad()},
                          {textAttr(c.op.attr<bool>("sums_grads") ? "add" : "local"), c.op.attrValue("group"),
                           Attr(!t.metaShape.empty())});
    c.set(0, reshapeTo(c, part, t.shape));
  };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    return kernels::makeAllGather(t.dtype, t.numElements(), numElements(op.output()->shape()), groupsOf(op));
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    forMembers(op, out, [&](const std::vector<int32_t>& members, size_t, Array& result) {
      for (int64_t i = 0; i < result.size(); ++i) {
        const int64_t part = in[0].size();
        result[i] = in[static_cast<size_t>(members[static_cast<size_t>(i / part)])][i % part];
      }
    });
  };
  return def;
}

OpDef reduceScatter() {
  OpDef def =
      collectiveOp({"replicated_reduce_scatter", "ReplicatedReduceScatter",
                    "A part of the reduction of a tensor over the replicas of a group: the first to the "
                    "first of them, and so on; flat, with zeros after the end."},
                   ir::kAny);
  def.attrs = {
      opAttr(),
      groupAttr(),
      {"sharded", AttrType::kBool, "Whether the result is a shard of the operand's shape.", Attr(false)}};
  def.attrs[0].doc =
      "How values are reduced, as replicated_all_reduce; local: not, each replica takes its own.";
  def.infer = [](const Op& op, Types& out) {
    if (!isLocal(op)) {
      reductionOf(op);
      if ((ir::bit(typeOf(op, 0).dtype) & (ir::kNumeric | ir::kBools)) == 0)
        fail(ErrorKind::kType, "{} has no arithmetic; cast it before it is reduced", describe(op, 0));
    }
    requireLogical(op);
    const TensorType& t = typeOf(op, 0);
    const int64_t size = groupSize(op);
    out.push_back({t.dtype, {(t.numElements() + size - 1) / size}, {}});
    if (op.attr<bool>("sharded")) out.back().metaShape = t.shape;
  };
  def.grad = [](GradContext& c) {
    requireLinear(c.op);
    const TensorType& t = c.op.input(0)->type();
    Tensor* whole = c.make("replicated_all_gather", {c.outGrad()},
                           {intsAttr(t.shape), c.op.attrValue("group"), Attr(!isLocal(c.op))});
    if (c.op.attr<std::string>("op") == "mean") {
      whole = c.make("mul", {whole, c.constant(t.dtype, {}, 1.0 / static_cast<double>(groupSize(c.op)))});
    }
    c.set(0, whole);
  };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    if (isLocal(op)) return kernels::makeReplicaSlice(t.dtype, t.numElements(), groupsOf(op));
    return kernels::makeReduceScatter(reductionOf(op), t.dtype, t.numElements(), groupsOf(op));
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    forMembers(op, out, [&](const std::vector<int32_t>& members, size_t k, Array& result) {
      for (int64_t i = 0; i < result.size(); ++i) {
        const int64_t from = static_cast<int64_t>(k) * result.size() + i;
        if (from >= in[0].size()) continue;
        result[i] = isLocal(op) ? in[static_cast<size_t>(members[k])][from]
                                : reduced(reductionOf(op), members, in, from);
      }
    });
  };
  return def;
}

OpDef allToAll() {
  OpDef def =
      collectiveOp({"replicated_all_to_all", "ReplicatedAllToAll",
                    "Part k of the tensor of every replica of a group to replica k of it, parts being equal "
                    "pieces of the first dimension."},
                   ir::kAny);
  def.attrs = {groupAttr()};
  def.infer = [](const Op& op, Types& out) {
    const Shape& shape = typeOf(op, 0).shape;
    const int64_t size = groupSize(op);
    if (shape.empty() || shape[0] % size != 0) {
      fail(ErrorKind::kGraph, "the first dimension of {} must be a multiple of the {} replicas of a group",
           describe(op, 0), size);
    }
    out.push_back({typeOf(op, 0).dtype, shape, {}});
  };
  def.grad = [](GradContext& c) { c.set(0, c.make("replicated_all_to_all", {c.outGrad()}, c.op.attrs())); };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    return kernels::makeAllToAll(t.dtype, t.numElements(), groupsOf(op));
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    forMembers(op, out, [&](const std::vector<int32_t>& members, size_t k, Array& result) {
      const int64_t part = result.size() / static_cast<int64_t>(members.size());
      for (int64_t i = 0; i < result.size(); ++i) {
        result[i] = in[static_cast<size_t>(members[static_cast<size_t>(i / part)])]
                      [static_cast<int64_t>(k) * part + i % part];
      }
    });
  };
  return def;
}

/// For each replica the one that its result comes from; -1: none.
std::vector<int32_t> sourcesOf(const Op& op) {
  const int64_t replicas = op.graph().ir().replicationFactor();
  const std::vector<int64_t>& sources = ints(op, "sources");
  if (static_cast<int64_t>(sources.size()) != replicas) {
    fail(ErrorKind::kValue, "`sources` names the sources of {} replicas; the program has {}", sources.size(),
         replicas);
  }
  std::vector<int32_t> out;
  for (const int64_t source : sources) {
    if (source < -1 || source >= replicas)
      fail(ErrorKind::kValue, "`sources` names replica {}; the program has {}", source, replicas);
    if (source >= 0 && std::find(out.begin(), out.end(), source) != out.end()) {
      fail(ErrorKind::kValue,
           "`sources` names replica {} twice; a replica sends to one other, or use "
           "replicated_broadcast",
           source);
    }
    out.push_back(static_cast<int32_t>(source));
  }
  return out;
}

OpDef permute() {
  OpDef def = collectiveOp(
      {"replicated_permute", "ReplicatedPermute", "The tensor of another replica; zeros where none sends."},
      ir::kAny);
  def.attrs = {{"sources", AttrType::kInts, "For each replica the one that it receives from; -1: none."}};
  def.infer = [](const Op& op, Types& out) {
    sourcesOf(op);
    sameType(op, out);
  };
  def.grad = [](GradContext& c) {
    const std::vector<int32_t> sources = sourcesOf(c.op);
    std::vector<int64_t> back(sources.size(), -1);
    for (size_t r = 0; r < sources.size(); ++r) {
      if (sources[r] >= 0) back[static_cast<size_t>(sources[r])] = static_cast<int64_t>(r);
    }
    c.set(0, c.make("replicated_permute", {c.outGrad()}, {intsAttr(std::move(back))}));
  };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    return kernels::makePermute(t.dtype, t.numElements(), sourcesOf(op));
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    const std::vector<int32_t> sources = sourcesOf(op);
    for (size_t r = 0; r < out.size(); ++r) {
      for (int64_t i = 0; sources[r] >= 0 && i < out[r].size(); ++i)
        out[r][i] = in[static_cast<size_t>(sources[r])][i];
    }
  };
  return def;
}

/// The replica that each replica's value comes from.
std::vector<int32_t> rootsOf(const Op& op) {
  const ReplicaGroups groups = groupsOf(op);
  const auto size = static_cast<int64_t>(groups.front().size()), root = integer(op, "root");
  if (root < 0 || root >= size)
    fail(ErrorKind::kValue, "`root` is {}; a group has {} replicas, numbered from 0", root, size);
  std::vector<int32_t> roots(groups.size() * groups.front().size());
  for (const std::vector<int32_t>& members : groups) {
    for (const int32_t m : members) roots[static_cast<size_t>(m)] = members[static_cast<size_t>(root)];
  }
  return roots;
}

OpDef broadcastOp() {
  OpDef def = collectiveOp({"replicated_broadcast", "ReplicatedBroadcast",
                            "The tensor of one replica of a group, on each of them."},
                           ir::kAny);
  def.attrs = {{"root", AttrType::kInt, "The replica's place in its group.", Attr(int64_t{0})}, groupAttr()};
  def.infer = [](const Op& op, Types& out) {
    rootsOf(op);
    sameType(op, out);
  };
  def.grad = [](GradContext& c) {  // the root gets the sum of all gradients, the others none
    Tensor* sum = c.make("replicated_all_reduce", {c.outGrad()}, {textAttr("add"), c.op.attrValue("group")});
    const std::vector<int32_t> roots = rootsOf(c.op);
    std::vector<int64_t> kept;
    for (size_t r = 0; r < roots.size(); ++r)
      kept.push_back(roots[r] == static_cast<int32_t>(r) ? roots[r] : -1);
    c.set(0, c.make("replicated_permute", {sum}, {intsAttr(std::move(kept))}));
  };
  def.collective = [](const Op& op) {
    const TensorType& t = typeOf(op, 0);
    return kernels::makePermute(t.dtype, t.numElements(), rootsOf(op));
  };
  def.collectiveReference = [](const Op& op, Arrays in, std::span<Array> out) {
    const std::vector<int32_t> roots = rootsOf(op);
    for (size_t r = 0; r < out.size(); ++r) {
      for (int64_t i = 0; i < out[r].size(); ++i) out[r][i] = in[static_cast<size_t>(roots[r])][i];
    }
  };
  return def;
}

// --- across the devices of one replica

Val fold(const std::vector<Val>& values, const std::function<Val(Val, Val)>& f) {
  Val sum = values[0];
  for (size_t i = 1; i < values.size(); ++i) sum = f(sum, values[i]);
  return sum;
}

std::vector<Val> truths(std::vector<Val> values) {
  for (Val& v : values) v = select(eq(v, v.constant(0)), v.constant(0), v.constant(1));
  return values;
}

Val reducedValue(CollectiveReduction reduction, std::vector<Val> values) {
  switch (reduction) {
    case CollectiveReduction::kMul:
      return fold(values, [](Val a, Val b) { return a * b; });
    case CollectiveReduction::kMin:
      return fold(values, [](Val a, Val b) { return min(a, b); });
    case CollectiveReduction::kMax:
      return fold(values, [](Val a, Val b) { return max(a, b); });
    case CollectiveReduction::kAnd:
      return fold(truths(values), [](Val a, Val b) { return select(eq(a, a.constant(0)), a, b); });
    case CollectiveReduction::kOr:
      return fold(truths(values), [](Val a, Val b) { return select(eq(a, a.constant(0)), b, a); });
    case CollectiveReduction::kSquareAdd:
      for (Val& v : values) v = v * v;
      break;
    case CollectiveReduction::kAdd:
    case CollectiveReduction::kMean:
      break;
  }
  const Val sum = fold(values, [](Val a, Val b) { return a + b; });
  if (reduction != CollectiveReduction::kMean) return sum;
  return sum / static_cast<double>(values.size());
}

OpDef acrossDevices() {
  OpDef def;
  def.name = "all_reduce";
  def.type = "AllReduce";
  def.doc = "The reduction of tensors on several devices of a replica, on each of the devices.";
  def.operands = {{"ts", ir::kNumeric | ir::kBools, "One for each device.", Arity::kVariadic}};
  def.attrs = {opAttr(),
               {"ipus", AttrType::kInts, "The device of each."},
               {"identical_inputs", AttrType::kBool, "Whether the tensors are equal, and stay as they are.",
                Attr(false)},
               {"identical_grad_inputs", AttrType::kBool, "Whether the gradients of the results are equal.",
                Attr(false)}};
  def.results = {{"outs", "", true}};
  def.visibility = Visibility::kManual;
  def.infer = [](const Op& op, Types& out) {
    reductionOf(op);
    const size_t count = op.inputs().size(), devices = ints(op, "ipus").size();
    if (count != devices)
      fail(ErrorKind::kValue, "`ipus` names the devices of {} tensors, not {}", devices, count);
    requireLogical(op);
    for (size_t i = 0; i < count; ++i) {
      requireSameDType(op, 0, i);
      requireSameShape(op, 0, i);
      out.push_back({typeOf(op, i).dtype, typeOf(op, i).shape, {}});
    }
  };
  def.grad = [](GradContext& c) {
    if (c.op.attr<std::string>("op") != "add")
      fail(ErrorKind::kGraph, "`all_reduce` has a gradient for the reduction add alone");
    std::vector<Tensor*> grads;
    for (size_t i = 0; i < c.op.outputs().size(); ++i) grads.push_back(c.outGradOrZero(i));
    const auto back =
        c.makeAll("all_reduce", grads,
                  {c.op.attrValue("op"), c.op.attrValue("ipus"), c.op.attrValue("identical_grad_inputs"),
                   c.op.attrValue("identical_inputs")});
    for (size_t i = 0; i < back.size(); ++i) c.set(i, back[i]);
  };
  def.expr = [](ExprContext& c) {
    std::vector<Val> values;
    for (size_t i = 0; i < c.op.inputs().size(); ++i) values.push_back(c.in(i));
    const bool identical = c.op.attr<bool>("identical_inputs");
    const Val sum = identical ? values[0] : reducedValue(reductionOf(c.op), values);
    for (size_t i = 0; i < values.size(); ++i) store(c, identical ? values[i] : sum, i);
  };
  return def;
}

}  // namespace

void collective(Defs& defs) {
  defs.push_back(allReduce());
  defs.push_back(allGather());
  defs.push_back(reduceScatter());
  defs.push_back(allToAll());
  defs.push_back(broadcastOp());
  defs.push_back(permute());
  defs.push_back(acrossDevices());
}

}  // namespace popxl::ops
