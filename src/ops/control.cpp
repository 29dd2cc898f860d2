#include <set>

#include "ir/ir.h"
#include "ir/loop.h"
#include "ops/define.h"

// Ops that run graphs. Their effects and gradients come from the graphs; the executor runs them itself.
namespace popxl::ops {

namespace {

/// Checks operands [first, first + inputs of the callee) against the inputs of the callee; a `loop` gives the
/// scanned ones a slice of their operand.
void checkInputs(const Op& op, const ir::Graph& callee, size_t first, const ir::Loop* loop = nullptr) {
  const size_t wanted = callee.inputs().size();
  const size_t given = op.inputs().size() < first ? 0 : op.inputs().size() - first;
  if (given < wanted) {
    fail(ErrorKind::kValue, "Not enough inputs have been provided: graph `{}` has {} inputs, {} were given",
         callee.displayName(), wanted, given);
  }
  for (size_t i = 0; i < wanted; ++i) {
    const Tensor& have = *op.input(first + i);
    const Tensor& want = *callee.inputs()[i];
    const bool scanned = loop != nullptr && loop->isScanned(i);
    const Shape shape = scanned ? ir::stackedShape(loop->count, want.shape()) : want.shape();
    if (have.dtype() == want.dtype() && have.shape() == shape) continue;
    if (scanned) {
      fail(ErrorKind::kGraph,
           "tensor `{}` is {}, but input `{}` of graph `{}`, {}, takes a slice of it in each of {} "
           "iterations: "
           "it must be {}",
           have.id(), have.type().str(), want.name(), callee.displayName(), want.type().str(), loop->count,
           ir::TensorType{want.dtype(), shape, {}}.str());
    }
    fail(ErrorKind::kGraph, "tensor `{}` is {}, but input `{}` of graph `{}` is {}; they must be equal",
         have.id(), have.type().str(), want.name(), callee.displayName(), want.type().str());
  }
}

void checkNoMore(const Op& op, const ir::Graph& callee, size_t wanted) {
  if (op.inputs().size() <= wanted) return;
  fail(ErrorKind::kValue,
       "Too many inputs have been provided: graph `{}` has {} inputs; {} operands were given, {} are needed",
       callee.displayName(), callee.inputs().size(), op.inputs().size(), wanted);
}

/// Whether running `from` runs `to`.
bool reaches(const ir::Graph& from, const ir::Graph& to, std::set<const ir::Graph*>& seen) {
  if (&from == &to) return true;
  if (!seen.insert(&from).second) return false;
  for (const Op* op : from.ops()) {
    for (const ir::Graph* next : op->calledGraphs()) {
      if (reaches(*next, to, seen)) return true;
    }
  }
  return false;
}

void checkNotItself(const Op& op, const ir::Graph& callee) {
  if (&callee.ir() != &op.graph().ir()) {
    fail(ErrorKind::kValue, "graph `{}` belongs to another Ir", callee.displayName());
  }
  if (&callee == &op.graph()) fail(ErrorKind::kValue, "graph `{}` can't run itself", callee.displayName());
  if (callee.isMain()) fail(ErrorKind::kValue, "the main graph can't be called; a session runs it");
  std::set<const ir::Graph*> seen;
  if (!op.graph().isMain() && reaches(callee, op.graph(), seen)) {
    fail(ErrorKind::kValue, "graph `{}` can't run graph `{}`, which runs it, itself or through others",
         op.graph().displayName(), callee.displayName());
  }
}

void outputTypes(const ir::Graph& callee, Types& out) {
  for (const Tensor* t : callee.outputs()) out.push_back(t->type());
}

void inferCall(const Op& op, Types& out) {
  const ir::Graph& callee = *op.attr<ir::Graph*>("graph");
  checkNotItself(op, callee);
  checkInputs(op, callee, 0);
  checkNoMore(op, callee, callee.inputs().size());
  outputTypes(callee, out);
}

void checkLoop(const Op& op, const ir::Loop& loop) {
  const ir::Graph& body = *loop.body;
  const size_t inputs = body.inputs().size(), outputs = body.outputs().size();
  if (loop.count < 0) fail(ErrorKind::kValue, "Repeat count must be >= 0, it is {}", loop.count);
  const int64_t stacked = integer(op, "stacked"), scanned = integer(op, "scanned");
  if (stacked < 0 || stacked > static_cast<int64_t>(outputs)) {
    fail(ErrorKind::kValue, "{} outputs of graph `{}` can't be stacked; it has {}", stacked,
         body.displayName(), outputs);
  }
  if (scanned < 0 || scanned > static_cast<int64_t>(inputs)) {
    fail(ErrorKind::kValue, "{} inputs of graph `{}` can't be scanned; it has {}", scanned,
         body.displayName(), inputs);
  }
  if (loop.carried + loop.scanned > inputs) {
    fail(ErrorKind::kValue,
         "To repeat the subgraph `{}`, it must not have more outputs ({}) than inputs ({}): each output "
         "becomes the input at the same place in the next iteration",
         body.displayName(), loop.carried, inputs - loop.scanned);
  }
  if (loop.whileTrue && loop.reverse) {
    fail(ErrorKind::kValue,
         "a loop that ends when a value is false can't take slices in reverse: how many there will be is not "
         "known when it begins");
  }
  if (loop.whileTrue && (loop.carried == 0 || body.inputs()[0]->dtype() != DType::kBool ||
                         body.inputs()[0]->type().numElements() != 1)) {
    fail(ErrorKind::kGraph,
         "to be repeated while it is true, input 0 of graph `{}` must be a carried bool of one element",
         body.displayName());
  }
}

void inferRepeat(const Op& op, Types& out) {
  const ir::Loop loop(op);
  const ir::Graph& body = *loop.body;
  checkNotItself(op, body);
  if (loop.trips != nullptr) requireScalar(op, 0);
  checkLoop(op, loop);
  checkInputs(op, body, loop.first, &loop);
  checkNoMore(op, body, loop.first + body.inputs().size());
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const TensorType& output = body.outputs()[i]->type();
    if (loop.isStacked(i)) {
      out.push_back({output.dtype, ir::stackedShape(loop.count, output.shape), {}});
      continue;
    }
    const TensorType& input = body.inputs()[i]->type();
    if (output.dtype != input.dtype || output.shape != input.shape) {
      fail(ErrorKind::kGraph,
           "output `{}` of graph `{}` is {}, but it becomes input `{}`, {}, in the next iteration",
           body.outputs()[i]->name(), body.displayName(), output.str(), body.inputs()[i]->name(),
           input.str());
    }
    out.push_back(output);
  }
}

void inferConditional(const Op& op, Types& out) {
  const ir::Graph& yes = *op.attr<ir::Graph*>("then_branch");
  const ir::Graph& no = *op.attr<ir::Graph*>("else_branch");
  checkNotItself(op, yes);
  checkNotItself(op, no);
  requireScalar(op, 0);
  if (yes.outputs().size() != no.outputs().size()) {
    fail(ErrorKind::kValue, "the branches must have the same number of outputs: `{}` has {}, `{}` has {}",
         yes.displayName(), yes.outputs().size(), no.displayName(), no.outputs().size());
  }
  for (size_t i = 0; i < yes.outputs().size(); ++i) {
    const TensorType &a = yes.outputs()[i]->type(), &b = no.outputs()[i]->type();
    if (a.dtype == b.dtype && a.shape == b.shape) continue;
    fail(ErrorKind::kGraph, "output {} is {} in branch `{}` and {} in branch `{}`; they must be equal", i,
         a.str(), yes.displayName(), b.str(), no.displayName());
  }
  checkInputs(op, yes, 1);
  checkInputs(op, no, 1 + yes.inputs().size());
  checkNoMore(op, no, 1 + yes.inputs().size() + no.inputs().size());
  outputTypes(yes, out);
}

void addRepeats(Defs& defs) {
  OpDef repeat;
  repeat.name = "repeat";
  repeat.type = "Loop";
  repeat.doc = "Runs a graph a number of times; its outputs become its first inputs of the next time.";
  repeat.operands = {{"inputs", ir::kAny,
                      "Inputs of the first time: carried ones, scanned ones, and those that stay the same.",
                      Arity::kVariadic}};
  repeat.attrs = {
      {"graph", AttrType::kGraph, "The graph to run."},
      {"repeat_count", AttrType::kInt, "How many times; after 0 times the outputs are the inputs."},
      {"stacked", AttrType::kInt,
       "So many outputs, the last ones, are not carried: the result holds those of all times.",
       Attr(int64_t{0})},
      {"scanned", AttrType::kInt,
       "So many inputs, after the carried ones, are slices of their operand: another one each time.",
       Attr(int64_t{0})},
      {"reverse", AttrType::kBool, "Whether slices are taken and given from the last to the first.",
       Attr(false)},
      {"while_true", AttrType::kBool,
       "Whether to end early: before a time to which false is carried as input 0.", Attr(false)}};
  repeat.results = {{"outputs", "", true}};
  repeat.infer = inferRepeat;
  repeat.visibility = Visibility::kManual;
  repeat.structure = Structure::kRepeat;
  defs.push_back(repeat);

  OpDef upTo = repeat;
  upTo.name = "repeat_up_to";
  upTo.type = "LoopUpTo";
  upTo.doc = "Runs a graph as often as a tensor says, at most `repeat_count` times.";
  upTo.operands.insert(upTo.operands.begin(),
                       {"trip_count", ir::kInts, "How many times; a negative number is 0."});
  defs.push_back(upTo);
}

}  // namespace

void control(Defs& defs) {
  OpDef call;
  call.name = "call";
  call.type = "Call";
  call.doc = "Runs a graph on operands given by value, or by reference where the graph's input says so.";
  call.operands = {{"inputs", ir::kAny, "One tensor for each input of the graph.", Arity::kVariadic}};
  call.attrs = {{"graph", AttrType::kGraph, "The graph to run."}};
  call.results = {{"outputs", "", true}};
  call.infer = inferCall;
  call.visibility = Visibility::kManual;
  call.structure = Structure::kCall;
  defs.push_back(call);

  addRepeats(defs);

  OpDef conditional;
  conditional.name = "conditional";
  conditional.type = "If";
  conditional.doc = "Runs one of two graphs.";
  conditional.operands = {
      {"cond", ir::kBools, "Decides: true runs `then_branch`."},
      {"inputs", ir::kAny, "Inputs of `then_branch`, then those of `else_branch`.", Arity::kVariadic}};
  conditional.attrs = {{"then_branch", AttrType::kGraph, "Run when the condition is true."},
                       {"else_branch", AttrType::kGraph, "Run when the condition is false."}};
  conditional.results = {{"outputs", "", true}};
  conditional.infer = inferConditional;
  conditional.visibility = Visibility::kManual;
  conditional.structure = Structure::kConditional;
  defs.push_back(conditional);
}

}  // namespace popxl::ops
