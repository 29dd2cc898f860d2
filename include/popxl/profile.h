#pragma once

#include <popxl/machine.h>

#include <cstdint>
#include <string>
#include <vector>

namespace popxl {

/// One instruction of a compiled program over all runs of a profile: a kernel (one op, or a fused group), a
/// call, or a transfer.
struct ProfileEntry {
  std::string graph;                   ///< that holds it: "main", "layer_subgraph(0)"
  std::string kernel;                  ///< what runs: "matmul float32 64x512x784"
  std::vector<std::string> ops;        ///< names of the ops that it carries out
  std::vector<std::string> locations;  ///< of them in the user's program: "model.py:12"
  int64_t calls = 0;
  double seconds = 0;           ///< of all calls, without what called graphs took
  double inclusiveSeconds = 0;  ///< with it
  double predictedSeconds = 0;  ///< for so many calls by the cost model: MachinePeaks::secondsFor
  double flops = 0;             ///< floating-point operations of all calls
  double bytes = 0;             ///< of operands read and results written by all calls
  double shareOfPeak = 0;       ///< of the machine's arithmetic or bandwidth, whichever limits it
  bool boundByBytes = false;    ///< it is bandwidth
};

/// Where the time of a session's runs went.
class Profile {
 public:
  /// One instruction as it was carried out.
  struct Slice {
    int32_t entry = 0;  ///< index into entries
    int32_t replica = 0;
    int64_t start = 0;  ///< nanoseconds since the profile was begun
    int64_t length = 0;
  };

  MachinePeaks peaks;
  int64_t runs = 0;
  double seconds = 0;                 ///< of all runs, from the start of the main graph to its end
  std::vector<ProfileEntry> entries;  ///< instructions that ran, the most expensive first
  std::vector<Slice> slices;          ///< in order of their ends; the first million of them
  int64_t slicesLeftOut = 0;

  /// A table of the most expensive instructions, `limit` lines at most.
  std::string table(int64_t limit = 40) const;
  /// JSON for chrome://tracing or ui.perfetto.dev: every instruction as a slice, calls around what they run.
  std::string chromeTrace() const;
};

}  // namespace popxl
