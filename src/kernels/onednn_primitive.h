#pragma once

#include <dnnl.h>

#include <atomic>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <vector>

namespace popxl::kernels::onednn {

/// The one CPU engine.
const dnnl::engine& cpuEngine();

/// A primitive with the descriptors of its arguments, run on raw pointers. Calls may overlap: each takes one
/// of a fixed set of memory objects made beforehand.
class Primitive {
 public:
  struct Argument {
    int id;
    dnnl::memory::desc desc;
  };

  /// Arguments in the order of run's pointers; a scratchpad, when scratchBytes() > 0, comes last.
  Primitive(const dnnl::primitive& primitive, std::vector<Argument> arguments,
            const dnnl::memory::desc& scratchpad);
  ~Primitive();

  int64_t scratchBytes() const { return scratchBytes_; }
  /// Runs on the calling thread alone.
  void run(std::initializer_list<void*> pointers) const;

 private:
  struct Context;

  dnnl::primitive primitive_;
  int64_t scratchBytes_;
  size_t count_;  ///< arguments, the scratchpad included
  std::vector<std::unique_ptr<Context>> contexts_;
};

/// A change of layout; null when the two are the same.
std::unique_ptr<Primitive> makeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

/// Attributes that every primitive is made with: scratch memory comes from the caller.
dnnl::primitive_attr userScratchpad();

}  // namespace popxl::kernels::onednn
