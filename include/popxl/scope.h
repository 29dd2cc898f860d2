#pragma once

#include <popxl/graph.h>

#include <cstdint>
#include <string_view>

namespace popxl {

/// Ops made while it lives go to this graph. Scopes nest. Error(kRuntime) inside a graph of another Ir.
class GraphScope {
 public:
  explicit GraphScope(const Graph& graph);
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  Graph graph_;
};

/// Ops made while it lives run in the order in which they are made; with `ordered` false in no particular
/// order, inside an ordered block.
class InSequence {
 public:
  explicit InSequence(bool ordered = true);
  ~InSequence();
  InSequence(const InSequence&) = delete;
  InSequence& operator=(const InSequence&) = delete;
};

/// Names of tensors made while it lives begin with `name` and '/'.
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
};

/// Ops made while it lives are placed on this IPU: a note that is kept and checked, as programs may read it.
class Ipu {
 public:
  explicit Ipu(int32_t ipu);
  ~Ipu();
  Ipu(const Ipu&) = delete;
  Ipu& operator=(const Ipu&) = delete;
};

}  // namespace popxl
