#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace popxl {

/// Memory that is in use when the frame is fullest.
struct MemoryItem {
  std::string tensor;    ///< id of the tensor that it holds; "" for scratch memory of a kernel
  std::string type;      ///< of that tensor: "float32 (2, 3)"
  std::string op;        ///< that made the tensor, or needs the scratch memory
  std::string location;  ///< of the op in the user's program: "model.py:12"
  std::string graph;     ///< whose frame holds it
  int64_t bytes = 0;
};

/// The memory that a session takes; known before it runs.
struct MemoryReport {
  int64_t frameBytes = 0;     ///< activations and temporaries: the planned peak
  int64_t variableBytes = 0;  ///< of all replicas of this process
  int64_t constantBytes = 0;
  int64_t remoteBytes = 0;     ///< remote buffers of all replicas of this process
  int64_t liveLowerBound = 0;  ///< what no plan of the frame can go below: the most bytes in use at once
  std::string peakOp;          ///< that runs when the frame is fullest, and where
  std::string peakLocation;
  std::vector<MemoryItem> atPeak;  ///< what the frame holds then, the largest first

  int64_t total() const { return frameBytes + variableBytes + constantBytes + remoteBytes; }
  /// Whether the session runs in so many bytes. Error(kValue) when they are negative.
  bool fits(int64_t bytes) const;
  /// The figures, and the largest items at the peak, `limit` lines at most.
  std::string table(int64_t limit = 20) const;
};

}  // namespace popxl
