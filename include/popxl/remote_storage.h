#pragma once

#include <cstdint>
#include <string>

namespace popxl {

/// Where a session keeps remote buffers.
struct RemoteStorage {
  std::string directory;                  ///< of the files that hold them; "": they are held in RAM
  int64_t ramBytes = int64_t{256} << 20;  ///< the most RAM that entries kept in files take; 0: none
  /// Whether every run ends with its data on the disk, where they outlive a failure of power. Without it they
  /// outlive the end of the process.
  bool syncEveryRun = false;
};

}  // namespace popxl
