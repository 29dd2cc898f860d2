#pragma once

#include <utility>

#include "ir/context.h"

namespace popxl::ir {

/// While it lives, this thread builds one graph with nothing in force of what was before.
class FreshContext {
 public:
  explicit FreshContext(Graph& graph) : before_(std::exchange(Context::current(), Context())) {
    Context::current().pushGraph(graph);
  }
  ~FreshContext() { Context::current() = std::move(before_); }
  FreshContext(const FreshContext&) = delete;
  FreshContext& operator=(const FreshContext&) = delete;

 private:
  Context before_;
};

}  // namespace popxl::ir
