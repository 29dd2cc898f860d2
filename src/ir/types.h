#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/shape.h"

namespace popxl::ir {

class Ir;
class Graph;
class Tensor;
class Op;
struct OpDef;

/// Where in the user's program something was made. Strings are interned for the life of the process.
struct Loc {
  const std::string* file = nullptr;
  const std::string* function = nullptr;
  int32_t line = 0;

  bool known() const { return file != nullptr; }
  std::string str() const;  ///< "model.py:12", or "unknown location"
  static Loc from(const std::source_location& where);
};
const std::string* intern(std::string_view text);

/// Shape, element type and, for a shard, the shape of the whole.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  Shape metaShape;

  bool operator==(const TensorType&) const = default;
  int64_t numElements() const { return popxl::numElements(shape); }
  int64_t bytes() const { return numElements() * sizeOf(dtype); }
  /// Error(kValue) when the elements take more than 2^47 bytes, which no address space holds.
  void checkSize() const;
  std::string str() const;  ///< "float32 (2, 3)"
};

enum class AttrType : uint8_t { kInt, kFloat, kBool, kString, kInts, kFloats, kDType, kGraph };
/// Value of an op attribute; monostate is "absent" for an optional one.
using Attr = std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<int64_t>,
                          std::vector<double>, DType, Graph*>;

enum class TileSet : uint8_t { kUndefined, kCompute, kIO };
enum class ExecutionContext : uint8_t { kWeightsFromHost, kNormal, kAccumulateOuter, kWeightsToHost };

/// What the context in force gave to an op when it was made.
struct Settings {
  int32_t ipu = -1;  ///< -1: undefined
  TileSet tileSet = TileSet::kUndefined;
  ExecutionContext context = ExecutionContext::kNormal;
  const std::string* scope = nullptr;  ///< name scopes joined by '/', or null

  bool operator==(const Settings&) const = default;
};

enum class TensorKind : uint8_t { kActivation, kInput, kVariable, kConstant, kStream };

/// Host memory behind a variable or constant. `owner` keeps the memory alive (an array of the user's, a
/// mapped file).
struct HostData {
  std::byte* bytes = nullptr;
  int64_t size = 0;
  std::shared_ptr<void> owner;
  bool writable = true;

  static std::shared_ptr<HostData> allocate(int64_t size);  ///< zeroed, 64-byte aligned
};

/// Which replicas share one value of a variable: group of each replica. Empty: all replicas are one group.
struct VariableSettings {
  std::vector<int32_t> groupOf;
  int64_t numGroups = 1;
  bool retrieveAllReplicas = false;
  int64_t remoteBuffer = 0;  ///< id of the remote buffer that keeps the variable; 0: none
  int64_t remoteEntry = 0;
  /// Where the buffer keeps shards: which of them each replica has; else empty.
  std::vector<int32_t> shardOf;
};

}  // namespace popxl::ir
