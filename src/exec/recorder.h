#pragma once

#include <chrono>
#include <vector>

#include "compile/program.h"
#include "popxl/profile.h"

namespace popxl::exec {

/// Takes the time of every instruction that an executor carries out.
class Recorder {
 public:
  explicit Recorder(const compile::Program& program);

  /// What start() hands to stop().
  struct Mark {
    int64_t time, inner;
    int32_t replica;
  };
  void beginRun();
  void endRun();
  Mark start(int64_t replica);
  void stop(const compile::Code& code, size_t instruction, Mark mark);

  Profile profile(const MachinePeaks& peaks) const;

 private:
  struct Total {
    int64_t calls = 0, time = 0, inner = 0;  // nanoseconds; inner: of graphs that it called
  };
  struct Slice {
    int32_t code, instruction, replica;
    int64_t start, length;
  };
  int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begun_)
        .count();
  }

  const compile::Program& program_;
  std::chrono::steady_clock::time_point begun_;
  std::vector<std::vector<Total>> totals_;  // by code and instruction
  std::vector<Slice> slices_;
  int64_t slicesLeftOut_ = 0;
  int64_t inner_ = 0;  // time of the instructions so far of the graph that runs
  int64_t runs_ = 0, runTime_ = 0, runStart_ = 0;
};

}  // namespace popxl::exec
