#include "ir/op.h"

#include <algorithm>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/ir.h"
#include "ir/loop.h"

namespace popxl::ir {

std::string Tensor::id() const { return graph_->isMain() ? name_ : graph_->id() + "/" + name_; }

std::string Op::type() const {
  if (!inplace_ || def_->alwaysInplace) return std::string(def_->type);
  return def_->inplaceType.empty() ? std::string(def_->type) + "Inplace" : std::string(def_->inplaceType);
}

void Op::setInput(size_t i, Tensor* t) {
  const Use use{this, static_cast<int32_t>(i)};
  if (Tensor* old = inputs_[i]; old != nullptr) std::erase(old->uses_, use);
  inputs_[i] = t;
  if (t != nullptr) t->uses_.push_back(use);
}

void Op::addInput(Tensor* t) {
  inputs_.push_back(nullptr);
  setInput(inputs_.size() - 1, t);
}

Tensor* Op::addOutput(std::string_view name, TensorType type) {
  Tensor* t = graph_->newTensor(graph_->uniqueName(name), std::move(type), TensorKind::kActivation);
  t->producer_ = this;
  t->producerIndex_ = static_cast<int32_t>(outputs_.size());
  t->loc_ = loc_;
  outputs_.push_back(t);
  return t;
}

void Op::removeLastOutput() {
  graph_->eraseTensor(outputs_.back());
  outputs_.pop_back();
}

const Attr& Op::attrValue(std::string_view name) const {
  const int32_t index = def_->attrIndex(name);
  POPXL_ASSERT(index >= 0, "op {} has no attribute {}", def_->name, name);
  return attrs_[static_cast<size_t>(index)];
}

void Op::setAttr(std::string_view name, Attr value) {
  const int32_t index = def_->attrIndex(name);
  POPXL_ASSERT(index >= 0, "op {} has no attribute {}", def_->name, name);
  attrs_[static_cast<size_t>(index)] = std::move(value);
}

void Op::declareModified(int32_t input) {
  const auto at = std::lower_bound(declaredModified_.begin(), declaredModified_.end(), input);
  if (at == declaredModified_.end() || *at != input) declaredModified_.insert(at, input);
}

std::vector<Graph*> Op::calledGraphs() const {
  std::vector<Graph*> graphs;
  for (const Attr& a : attrs_) {
    if (const auto* graph = std::get_if<Graph*>(&a)) graphs.push_back(*graph);
  }
  return graphs;
}

Graph* Op::calledGraph() const {
  for (const Attr& a : attrs_) {
    if (const auto* graph = std::get_if<Graph*>(&a)) return *graph;
  }
  return nullptr;
}

namespace {

/// Whether some op of the graph writes this tensor or memory that it shares.
bool modifiedInside(const Tensor& t) {
  for (const Use& use : t.uses()) {
    if (use.op->modifies(static_cast<size_t>(use.index))) return true;
    for (const Alias& alias : use.op->aliases()) {
      if (alias.input == use.index && modifiedInside(*use.op->output(static_cast<size_t>(alias.output))))
        return true;
    }
  }
  return false;
}

}  // namespace

bool Op::modifies(size_t input) const {
  const auto index = static_cast<int32_t>(input);
  switch (def_->structure) {
    case Structure::kCall: {
      const std::vector<Tensor*>& wanted = calledGraph()->inputs();
      return (input < wanted.size() && wanted[input]->byRef()) ||
             std::binary_search(declaredModified_.begin(), declaredModified_.end(), index);
    }
    case Structure::kRepeat: {
      if (std::binary_search(declaredModified_.begin(), declaredModified_.end(), index)) return true;
      const Loop loop(*this);
      const std::vector<Tensor*>& wanted = loop.body->inputs();
      const size_t i = input - loop.first;
      if (input < loop.first || i >= wanted.size() || !wanted[i]->byRef()) return false;
      return i < loop.carried || modifiedInside(*wanted[i]);
    }
    case Structure::kConditional:
      return std::binary_search(declaredModified_.begin(), declaredModified_.end(), index);
    default:
      break;
  }
  if (std::find(def_->alsoModifies.begin(), def_->alsoModifies.end(), index) != def_->alsoModifies.end()) {
    return inputs_[input] != nullptr;
  }
  return (def_->alwaysInplace || inplace_) && def_->inplaceModifies && index == def_->inplaceOperand;
}

bool Op::modifiesAny() const {
  if (def_->structure == Structure::kCall && declaredModified_.empty()) {
    const std::vector<Tensor*>& wanted = calledGraph()->inputs();
    return std::any_of(wanted.begin(), wanted.end(), [](const Tensor* t) { return t->byRef(); });
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] != nullptr && modifies(i)) return true;
  }
  return false;
}

std::vector<Alias> Op::aliases() const {
  if (!inplace_ && !def_->alwaysInplace) return {};
  const bool sharesAll = def_->operands.size() == 1 && def_->operands[0].arity == Arity::kVariadic;
  if (!sharesAll) return {{0, def_->inplaceOperand}};
  std::vector<Alias> out;
  for (size_t i = 0; i < inputs_.size(); ++i) out.push_back({0, static_cast<int32_t>(i)});
  return out;
}

}  // namespace popxl::ir
