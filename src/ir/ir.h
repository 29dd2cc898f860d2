#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/session_options.h"

namespace popxl::ir {

enum class StreamDirection : uint8_t { kHostToDevice, kDeviceToHost };

/// A host stream: its handle is a stream tensor of the main graph.
struct Stream {
  Tensor* tensor;
  StreamDirection direction;
  const std::string& id() const { return tensor->name(); }
};

/// Storage off the device, addressed by entry.
struct RemoteBuffer {
  int64_t id;
  TensorType type;
  int64_t entries;
};

/// A whole program: the main graph, the graphs it calls, streams, remote buffers and options.
class Ir : public std::enable_shared_from_this<Ir> {
 public:
  static std::shared_ptr<Ir> create(const OpTable& table);
  ~Ir();
  Ir(const Ir&) = delete;
  Ir& operator=(const Ir&) = delete;

  int64_t id() const { return id_; }  ///< unique in the process
  const OpTable& table() const { return *table_; }
  Graph& mainGraph() const { return *graphs_.front(); }
  /// In order of creation, the main graph first; removed ones left out.
  std::vector<Graph*> graphs() const;
  Graph* findGraph(std::string_view id) const;
  /// A new graph with id "{base}_subgraph({n})", n counting over the Ir.
  Graph& createGraph(std::string_view base);
  /// A new graph with exactly this id (parser, clone). Error(kValue) when taken.
  Graph& createGraphWithId(std::string id);
  void eraseGraph(Graph* graph);

  Stream& addStream(std::string_view name, TensorType type, StreamDirection direction);
  Stream* findStream(std::string_view id);
  std::vector<Stream>& streams() { return streams_; }
  const std::vector<Stream>& streams() const { return streams_; }
  RemoteBuffer& addRemoteBuffer(TensorType type, int64_t entries);
  /// By number; null when there is none.
  RemoteBuffer* findRemoteBuffer(int64_t id) const;
  std::vector<std::unique_ptr<RemoteBuffer>>& remoteBuffers() { return remoteBuffers_; }
  const std::vector<std::unique_ptr<RemoteBuffer>>& remoteBuffers() const { return remoteBuffers_; }

  SessionOptions& options() { return options_; }
  const SessionOptions& options() const { return options_; }
  int64_t replicationFactor() const;          ///< global
  int64_t instanceReplicationFactor() const;  ///< of this process
  int64_t hostTransfers() const { return hostTransfers_; }
  void setHostTransfers(int64_t n) { hostTransfers_ = n; }
  bool sessionMade() const { return sessionMade_; }
  void markSessionMade() { sessionMade_ = true; }

  int64_t nextOpId() { return nextOpId_++; }
  int64_t nextTensorNumber() { return nextTensorNumber_++; }
  /// Counters, so that text form and clone continue with the same numbers.
  struct Counters {
    int64_t op = 0, tensor = 0, graph = 0;
  };
  Counters counters() const { return {nextOpId_, nextTensorNumber_, nextGraphNumber_}; }
  void setCounters(const Counters& c);

  /// A deep copy that shares the host data of variables and constants. Ids, names and order are the same.
  std::shared_ptr<Ir> clone() const;
  /// Live Irs by id; null when gone.
  static std::shared_ptr<Ir> findLive(int64_t id);

 private:
  explicit Ir(const OpTable& table);

  int64_t id_;
  const OpTable* table_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<Graph*> erasedGraphs_;
  std::map<std::string, Graph*, std::less<>> graphById_;
  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<RemoteBuffer>> remoteBuffers_;
  SessionOptions options_;
  int64_t hostTransfers_ = 1;
  bool sessionMade_ = false;
  int64_t nextOpId_ = 0, nextTensorNumber_ = 0, nextGraphNumber_ = 0;
};

}  // namespace popxl::ir
