#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/shape.h"

namespace popxl::kernels {

class Kernel;
using KernelPtr = std::unique_ptr<Kernel>;

/// Work on one operand alone that a kernel does before anything else, such as packing weights.
struct Preparation {
  size_t operand = 0;
  int64_t bytes = 0;  ///< of the result, which takes the operand's place; null `kernel`: there is none
  KernelPtr kernel;   ///< operands: the operand, the result
};

/// One piece of work on memory, made for fixed layouts when a program is compiled and run many times.
///
/// `run` receives one pointer per operand (inputs, then outputs, in the order that the kernel's factory
/// documents), then, when scratchBytes() > 0, a pointer to that much 64-byte aligned scratch memory. Pointers
/// are to element 0 of the operand's Layout. A kernel allocates nothing, keeps no mutable state (two threads
/// may run it at once on different memory), and its result does not depend on the number of threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(std::span<std::byte* const> operands) const = 0;
  virtual int64_t scratchBytes() const { return 0; }
  /// Takes the preparation out, for whoever can run it less often than the kernel; from then on run expects
  /// its result in place of the operand. Before scratchBytes is asked.
  virtual Preparation takePreparation() { return {}; }
  /// Floating-point operations of one run, for profiles; 0 where counting makes no sense.
  virtual double flops() const { return 0; }
  /// One line for profiles and the text of a Program, e.g. "matmul f32 64x512x784".
  virtual std::string describe() const = 0;
};

}  // namespace popxl::kernels
