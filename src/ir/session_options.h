#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace popxl::ir {

enum class VirtualGraphMode : uint8_t { kOff, kManual, kAuto, kPipeline, kExecutionPhases };

/// Options a program may set on its Ir, by the original's names. Those that no compiler of ours needs are
/// kept as given.
struct SessionOptions {
  bool enableInplaceAmbiguityChecking = false;
  VirtualGraphMode virtualGraphMode = VirtualGraphMode::kOff;
  bool useHostCopyOps = false;
  bool aliasZeroCopy = false;
  bool enableExplicitMainLoops = false;
  bool explicitRecomputation = false;
  bool enableVariablesCaching = true;
  bool decomposeGradSum = false;
  bool constantWeights = true;
  bool enableReplicatedGraphs = false;
  int64_t replicatedGraphCount = 1;
  bool enableDistributedReplicatedGraphs = false;
  int64_t globalReplicaOffset = 0;
  int64_t globalReplicationFactor = 1;
  std::string partialsTypeMatMuls;
  bool throwIfLog2ScaleTensorNotInRange = true;
  std::map<std::string, std::string> engineOptions;
  bool enableEngineCaching = false;
  std::string cachePath = "session_cache";
  std::set<std::string> dotChecks;
  std::string logDir;
};

}  // namespace popxl::ir
