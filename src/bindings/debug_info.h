#pragma once

#include "ir/ir.h"

namespace popxl::bindings {

/// Record of what a program makes and where, while one is being kept.
class DebugInfo {
 public:
  static void addIr(const ir::Ir& made) {
    if (active_) recordIr(made);
  }
  static void addTensor(const ir::Tensor& made) {
    if (active_) recordTensor(made);
  }
  static void addOp(const ir::Op& made) {
    if (active_) recordOp(made);
  }
  static void start();
  static void stop() { active_ = false; }

 private:
  static void recordIr(const ir::Ir& made);
  static void recordTensor(const ir::Tensor& made);
  static void recordOp(const ir::Op& made);
  inline static bool active_ = false;
};

}  // namespace popxl::bindings
