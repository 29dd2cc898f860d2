#pragma once

#include <cstdint>

namespace popxl {

/// What this machine can do at most, with all threads that the library uses.
struct MachinePeaks {
  double flopsPerSecond = 0;        ///< float32 multiply-adds in registers; each counts as two operations
  double memoryBytesPerSecond = 0;  ///< a triad over arrays that do not fit the caches
  double cacheBytesPerSecond = 0;   ///< a triad over arrays that fit each core's own cache
  double cacheBytes = 0;            ///< of all cores' own caches together
  int threads = 1;

  /// Whether that much work is limited by memory or a cache rather than by arithmetic.
  bool boundByBytes(double flops, double bytes) const;
  /// The rate at which that many bytes can be moved: from the cores' own caches if they fit, else from
  /// memory.
  double bytesPerSecond(double bytes) const;
  /// The least time for so many operations and bytes moved: the longer of what either alone would take.
  double secondsFor(double flops, double bytes) const;

  /// Measures for about half a second, once for each number of threads.
  static MachinePeaks measure();
};

}  // namespace popxl
