#include "ir/graph.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ir.h"

namespace popxl::ir {
namespace {

std::string_view operandName(const OpDef& def, size_t i) {
  return def.operands[std::min(i, def.operands.size() - 1)].name;
}

const OperandDef* operandDef(const OpDef& def, size_t i) {
  if (i < def.operands.size()) return &def.operands[i];
  if (!def.operands.empty() && def.operands.back().arity == Arity::kVariadic) return &def.operands.back();
  return nullptr;
}

std::string dtypeList(DTypes set) {
  std::string out;
  for (int i = 0; i < kNumDTypes; ++i) {
    if ((set & (DTypes{1} << i)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += nameOf(static_cast<DType>(i));
  }
  return out;
}

/// Adds op and user's line to an error found while the op was made.
[[noreturn]] void rethrowWithPlace(const Error& error, const OpDef& def, const OpRequest& request) {
  const std::string name = request.inplace && !def.alwaysInplace ? def.inplaceName() : std::string(def.name);
  const std::string place = request.loc.known() ? fmt::format(" at {}", request.loc.str()) : "";
  std::throw_with_nested(Error(error.kind(), fmt::format("{}\n  in op `{}`{}", error.what(), name, place)));
}

}  // namespace

std::vector<Tensor*> Graph::tensors() const {
  std::vector<Tensor*> out;
  for (const Tensor& t : tensorStore_) {
    if (!t.erased_) out.push_back(const_cast<Tensor*>(&t));
  }
  return out;
}

Tensor* Graph::find(std::string_view name) const {
  for (; indexed_ < tensorStore_.size(); ++indexed_) {
    auto& t = const_cast<Tensor&>(tensorStore_[indexed_]);
    if (!t.erased_) byName_.emplace(t.name_, &t);
  }
  const auto it = byName_.find(name);
  return it == byName_.end() ? nullptr : it->second;
}

Tensor* Graph::findById(std::string_view id) const {
  if (isMain()) return find(id);
  if (id.size() <= id_.size() || id.substr(0, id_.size()) != id_ || id[id_.size()] != '/') return nullptr;
  return find(id.substr(id_.size() + 1));
}

std::string Graph::uniqueName(std::string_view base) {
  const std::string_view wanted = base.empty() ? std::string_view("t") : base;
  const bool looksGenerated = wanted.find("__t") != std::string_view::npos;
  namesLookGenerated_ = namesLookGenerated_ || looksGenerated;
  std::string name(wanted);
  if (ownBaseNames().insert(name).second && (!looksGenerated || find(name) == nullptr)) return name;
  do {
    name = fmt::format("{}__t{}", wanted, ir_->nextTensorNumber());
  } while (namesLookGenerated_ && find(name) != nullptr);
  return name;
}

void Graph::rename(Tensor* t, std::string_view base) {
  find(t->name_);  // completes the index
  byName_.erase(t->name_);
  ownBaseNames().erase(t->name_);
  t->name_ = uniqueName(base);
  byName_.emplace(t->name_, t);
}

Tensor* Graph::newTensor(std::string name, TensorType type, TensorKind kind) {
  const auto index = static_cast<int32_t>(tensorStore_.size());
  return &tensorStore_.emplace_back(*this, index, std::move(name), std::move(type), kind);
}

Op& Graph::newOp(const OpDef& def, int64_t id) {
  return opStore_.emplace_back(*this, static_cast<int32_t>(opStore_.size()), def, id);
}

/// The base names in use, to be changed: a clone that shares them keeps them as they are.
std::unordered_set<std::string>& Graph::ownBaseNames() {
  if (baseNames_.use_count() > 1) baseNames_ = std::make_shared<std::unordered_set<std::string>>(*baseNames_);
  return *baseNames_;
}

Tensor* Graph::addInput(std::string_view name, TensorType type, bool byRef) {
  type.checkSize();
  Tensor* t = newTensor(uniqueName(name), std::move(type), TensorKind::kInput);
  t->byRef_ = byRef;
  inputs_.push_back(t);
  return t;
}

void Graph::addOutput(Tensor* t) {
  if (t->graph_ != this || t->erased_) {
    fail(ErrorKind::kValue, "tensor `{}` belongs to graph `{}`; it can't be an output of graph `{}`", t->id(),
         t->graph_->displayName(), displayName());
  }
  outputs_.push_back(t);
}

void Graph::removeOutput(size_t index) {
  POPXL_ASSERT(index < outputs_.size(), "output {} of {}", index, displayName());
  outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(index));
}

Tensor* Graph::addVariable(std::string_view name, TensorType type, std::shared_ptr<HostData> data) {
  if (!isMain()) {
    fail(ErrorKind::kValue,
         "variable `{}` can't be made in graph `{}`: variables live in the main graph; make it there and "
         "pass it to the graph as an input",
         name, displayName());
  }
  Tensor* t = newTensor(uniqueName(name), std::move(type), TensorKind::kVariable);
  t->data_ = std::move(data);
  return t;
}

Tensor* Graph::addConstant(std::string_view name, TensorType type, std::shared_ptr<HostData> data) {
  Tensor* t = newTensor(uniqueName(name), std::move(type), TensorKind::kConstant);
  t->data_ = std::move(data);
  return t;
}

Tensor* Graph::addStreamTensor(std::string_view name, TensorType type) {
  type.checkSize();
  return newTensor(uniqueName(name), std::move(type), TensorKind::kStream);
}

void Graph::checkOperands(const OpDef& def, const OpRequest& request) const {
  const size_t given = request.inputs.size();
  for (size_t i = 0; i < std::max(given, def.operands.size()); ++i) {
    const OperandDef* operand = operandDef(def, i);
    if (operand == nullptr) {
      fail(ErrorKind::kValue, "it takes {} operands and was given {}", def.operands.size(), given);
    }
    const Tensor* t = i < given ? request.inputs[i] : nullptr;
    if (t == nullptr) {
      // A list of operands has no gaps, and is empty only where a graph says how long it is.
      const bool list = operand->arity == Arity::kVariadic;
      const bool missing =
          list ? i < given || def.structure == Structure::kNone : operand->arity == Arity::kOne;
      if (missing) fail(ErrorKind::kValue, "operand `{}` is missing", operand->name);
      continue;
    }
    if (&t->graph_->ir() != &ir()) {
      fail(ErrorKind::kValue,
           "operand `{}`: tensor `{}` is not in the current graph `{}`, it belongs to another Ir: only a "
           "Session carries values from one program to another",
           operandName(def, i), t->id(), displayName());
    }
    if (t->graph_ != this || t->erased_) {
      fail(ErrorKind::kValue,
           "operand `{}`: tensor `{}` is not in the current graph `{}` but in `{}`; pass it to this graph as "
           "an input",
           operandName(def, i), t->id(), displayName(), t->graph_->displayName());
    }
    if ((operand->dtypes & bit(t->dtype())) == 0) {
      fail(ErrorKind::kType, "operand `{}`: tensor `{}` has dtype {}, which is none of {}; cast it first",
           operand->name, t->id(), nameOf(t->dtype()), dtypeList(operand->dtypes));
    }
  }
}

namespace {

std::vector<Attr> completeAttrs(const OpDef& def, std::vector<Attr> attrs) {
  POPXL_ASSERT(attrs.size() <= def.attrs.size(), "{} attributes for op {}", attrs.size(), def.name);
  attrs.resize(def.attrs.size());
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (!std::holds_alternative<std::monostate>(attrs[i])) continue;
    attrs[i] = def.attrs[i].fallback;
    if (std::holds_alternative<std::monostate>(attrs[i]) && !def.attrs[i].optional) {
      fail(ErrorKind::kValue, "attribute `{}` is missing", def.attrs[i].name);
    }
  }
  return attrs;
}

}  // namespace

Op* Graph::addOp(const OpDef& def, OpRequest request) {
  std::vector<TensorType> types;
  Op& op = newOp(def, ir_->counters().op);
  try {
    checkOperands(def, request);
    op.attrs_ = completeAttrs(def, std::move(request.attrs));
    op.inputs_ = request.inputs;
    op.inputs_.resize(
        std::max(op.inputs_.size(), def.operands.empty() || def.operands.back().arity != Arity::kVariadic
                                        ? def.operands.size()
                                        : def.operands.size() - 1));
    op.inplace_ = request.inplace || def.alwaysInplace;
    op.settings_ = request.settings;
    op.loc_ = request.loc;
    def.infer(op, types);
    for (const TensorType& type : types) type.checkSize();
  } catch (const Error& error) {
    opStore_.pop_back();
    rethrowWithPlace(error, def, request);
  } catch (...) {
    opStore_.pop_back();
    throw;
  }
  ir_->nextOpId();
  for (size_t i = 0; i < op.inputs_.size(); ++i) {
    if (op.inputs_[i] != nullptr) op.inputs_[i]->uses_.push_back({&op, static_cast<int32_t>(i)});
  }
  op.outputs_.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    op.addOutput(i < request.outputNames.size() ? std::string_view(request.outputNames[i]) : "t",
                 std::move(types[i]));
  }
  ops_.push_back(&op);
  return &op;
}

int64_t Graph::addHook(Hook hook) {
  hooks_.emplace_back(nextHook_, std::move(hook));
  return nextHook_++;
}

void Graph::removeHook(int64_t handle) {
  std::erase_if(hooks_, [&](const auto& entry) { return entry.first == handle; });
}

void Graph::eraseTensor(Tensor* t) {
  POPXL_ASSERT(t->uses_.empty(), "tensor {} is removed while {} ops use it", t->id(), t->uses_.size());
  find(t->name_);  // completes the index, so that the entry below is the tensor's own
  const auto it = byName_.find(t->name_);
  if (it != byName_.end() && it->second == t) byName_.erase(it);
  std::erase(inputs_, t);
  t->erased_ = true;
}

void Graph::eraseImplicit(const std::vector<Tensor*>& operands) {
  for (Tensor* t : operands) {
    const bool own = t != nullptr && t->graph_ == this && t->implicit_ && !t->erased_ && t->uses_.empty();
    if (!own || std::find(outputs_.begin(), outputs_.end(), t) != outputs_.end()) continue;
    ownBaseNames().erase(t->name_);
    if (t->producer_ == nullptr) {
      eraseTensor(t);
    } else {
      eraseOp(t->producer_);
    }
  }
}

void Graph::eraseOps(const std::vector<Op*>& ops) {
  for (Op* op : ops) {
    for (size_t i = 0; i < op->inputs_.size(); ++i) {
      if (op->inputs_[i] == nullptr) continue;
      if (Op* producer = op->inputs_[i]->producer_; producer != nullptr) op->after_.push_back(producer);
      op->setInput(i, nullptr);
    }
    op->erased_ = true;
  }
  for (Op* op : ops) {
    for (Tensor* t : op->outputs_) {
      POPXL_ASSERT(std::find(outputs_.begin(), outputs_.end(), t) == outputs_.end(), "{} is an output",
                   t->id());
      eraseTensor(t);
    }
  }
  std::erase_if(ops_, [](const Op* op) { return op->erased_; });
  const auto isErased = [](const Op* op) { return op->erased_; };
  for (Op* op : ops_) {
    while (std::any_of(op->after_.begin(), op->after_.end(), isErased)) {
      std::vector<Op*> after;
      for (Op* before : op->after_) {
        if (before->erased_) {
          after.insert(after.end(), before->after_.begin(), before->after_.end());
        } else {
          after.push_back(before);
        }
      }
      std::sort(after.begin(), after.end(), [](const Op* a, const Op* b) { return a->id_ < b->id_; });
      after.erase(std::unique(after.begin(), after.end()), after.end());
      op->after_ = std::move(after);
    }
  }
}

void Graph::replaceAllUses(Tensor* from, Tensor* to) {
  const std::vector<Use> uses = from->uses_;
  for (const Use& use : uses) use.op->setInput(static_cast<size_t>(use.index), to);
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::swapResults(Op& a, size_t i, Op& b, size_t j) {
  Tensor *&first = a.outputs_[i], *&second = b.outputs_[j];
  POPXL_ASSERT(first->type() == second->type(), "{} and {} differ", first->id(), second->id());
  std::swap(first, second);
  std::swap(first->producer_, second->producer_);
  std::swap(first->producerIndex_, second->producerIndex_);
}

void Graph::sortOps() {
  std::sort(ops_.begin(), ops_.end(), [](const Op* a, const Op* b) { return a->id() < b->id(); });
}

std::vector<Tensor*> Graph::copyFrom(const Graph& other, const std::vector<Graph*>& graphs) {
  std::vector<Tensor*> tensors(other.tensorStore_.size(), nullptr);
  const auto copyOf = [&](const Tensor* t) { return tensors[static_cast<size_t>(t->index_)]; };
  for (const Tensor& t : other.tensorStore_) {
    if (t.erased_) continue;
    Tensor* copy = newTensor(t.name_, t.type_, t.kind_);
    copy->byRef_ = t.byRef_;
    copy->loc_ = t.loc_;
    copy->data_ = t.data_;
    copy->settings_ = t.settings_;
    copy->uses_.reserve(t.uses_.size());
    tensors[static_cast<size_t>(t.index_)] = copy;
  }
  std::vector<Op*> ops(other.opStore_.size(), nullptr);
  ops_.reserve(other.ops_.size());
  for (const Op* op : other.ops_) {
    Op& copy = newOp(*op->def_, op->id_);
    copy.inplace_ = op->inplace_;
    copy.attrs_ = op->attrs_;
    for (Attr& a : copy.attrs_) {
      if (auto* graph = std::get_if<Graph*>(&a)) *graph = graphs[static_cast<size_t>((*graph)->index_)];
    }
    copy.declaredModified_ = op->declaredModified_;
    copy.settings_ = op->settings_;
    copy.loc_ = op->loc_;
    copy.inputs_.reserve(op->inputs_.size());
    for (const Tensor* t : op->inputs_) {
      copy.inputs_.push_back(t == nullptr ? nullptr : copyOf(t));
      if (t != nullptr) copyOf(t)->uses_.push_back({&copy, static_cast<int32_t>(copy.inputs_.size()) - 1});
    }
    copy.outputs_.reserve(op->outputs_.size());
    for (const Tensor* t : op->outputs_) {
      Tensor* out = copyOf(t);
      out->producer_ = &copy;
      out->producerIndex_ = t->producerIndex_;
      copy.outputs_.push_back(out);
    }
    ops_.push_back(&copy);
    ops[static_cast<size_t>(op->index_)] = &copy;
  }
  for (const Op* op : other.ops_) {
    for (const Op* before : op->after_) {
      ops[static_cast<size_t>(op->index_)]->addAfter(ops[static_cast<size_t>(before->index_)]);
    }
  }
  for (const Tensor* t : other.inputs_) inputs_.push_back(copyOf(t));
  for (const Tensor* t : other.outputs_) outputs_.push_back(copyOf(t));
  canBeDifferentiated_ = other.canBeDifferentiated_;
  baseNames_ = other.baseNames_;
  namesLookGenerated_ = other.namesLookGenerated_;
  return tensors;
}

}  // namespace popxl::ir
