#include "ir/ir.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/logging.h"

namespace popxl::ir {
namespace {

std::mutex& liveMutex() {
  static std::mutex mutex;
  return mutex;
}

std::map<int64_t, std::weak_ptr<Ir>>& live() {
  static auto* irs = new std::map<int64_t, std::weak_ptr<Ir>>();
  return *irs;
}

std::atomic<int64_t> nextIrId{0};

}  // namespace

Ir::Ir(const OpTable& table) : id_(nextIrId++), table_(&table) {
  graphs_.push_back(std::make_unique<Graph>(*this, 0, ""));
  graphById_.emplace("", graphs_.front().get());
}

std::shared_ptr<Ir> Ir::create(const OpTable& table) {
  refreshLogLevel();
  std::shared_ptr<Ir> made(new Ir(table));
  const std::lock_guard<std::mutex> lock(liveMutex());
  live().emplace(made->id(), made);
  return made;
}

Ir::~Ir() {
  const std::lock_guard<std::mutex> lock(liveMutex());
  live().erase(id_);
}

std::shared_ptr<Ir> Ir::findLive(int64_t id) {
  const std::lock_guard<std::mutex> lock(liveMutex());
  const auto it = live().find(id);
  return it == live().end() ? nullptr : it->second.lock();
}

std::vector<Graph*> Ir::graphs() const {
  std::vector<Graph*> out;
  for (const auto& g : graphs_) {
    if (std::find(erasedGraphs_.begin(), erasedGraphs_.end(), g.get()) == erasedGraphs_.end())
      out.push_back(g.get());
  }
  return out;
}

Graph* Ir::findGraph(std::string_view id) const {
  const auto it = graphById_.find(id);
  return it == graphById_.end() ? nullptr : it->second;
}

Graph& Ir::createGraph(std::string_view base) {
  std::string id;
  do {
    id = fmt::format("{}_subgraph({})", base, nextGraphNumber_++);
  } while (findGraph(id) != nullptr);
  return createGraphWithId(std::move(id));
}

Graph& Ir::createGraphWithId(std::string id) {
  if (findGraph(id) != nullptr) fail(ErrorKind::kValue, "there is already a graph named `{}`", id);
  graphs_.push_back(std::make_unique<Graph>(*this, static_cast<int32_t>(graphs_.size()), id));
  graphById_.emplace(std::move(id), graphs_.back().get());
  return *graphs_.back();
}

void Ir::eraseGraph(Graph* graph) {
  POPXL_ASSERT(!graph->isMain(), "the main graph can't be removed");
  graphById_.erase(graph->id());
  erasedGraphs_.push_back(graph);
}

Stream& Ir::addStream(std::string_view name, TensorType type, StreamDirection direction) {
  Tensor* handle = mainGraph().addStreamTensor(name, std::move(type));
  return streams_.emplace_back(Stream{handle, direction});
}

Stream* Ir::findStream(std::string_view id) {
  const auto it =
      std::find_if(streams_.begin(), streams_.end(), [&](const Stream& s) { return s.id() == id; });
  return it == streams_.end() ? nullptr : &*it;
}

RemoteBuffer& Ir::addRemoteBuffer(TensorType type, int64_t entries) {
  if (entries < 1) fail(ErrorKind::kValue, "Entries must be a non-zero, positive integer, not {}", entries);
  const auto id = static_cast<int64_t>(remoteBuffers_.size()) + 1;
  remoteBuffers_.push_back(std::make_unique<RemoteBuffer>(RemoteBuffer{id, std::move(type), entries}));
  return *remoteBuffers_.back();
}

RemoteBuffer* Ir::findRemoteBuffer(int64_t id) const {
  const auto it = std::find_if(remoteBuffers_.begin(), remoteBuffers_.end(),
                               [&](const auto& buffer) { return buffer->id == id; });
  return it == remoteBuffers_.end() ? nullptr : it->get();
}

int64_t Ir::replicationFactor() const {
  if (options_.enableDistributedReplicatedGraphs) return options_.globalReplicationFactor;
  return instanceReplicationFactor();
}

int64_t Ir::instanceReplicationFactor() const {
  return options_.enableReplicatedGraphs ? options_.replicatedGraphCount : 1;
}

void Ir::setCounters(const Counters& c) {
  nextOpId_ = c.op;
  nextTensorNumber_ = c.tensor;
  nextGraphNumber_ = c.graph;
}

std::shared_ptr<Ir> Ir::clone() const {
  auto copy = create(*table_);
  std::vector<Graph*> graphs(graphs_.size(), nullptr);  // the copy of each, by index
  const std::vector<Graph*> present = this->graphs();
  for (const Graph* g : present) {
    graphs[static_cast<size_t>(g->index())] =
        g->isMain() ? &copy->mainGraph() : &copy->createGraphWithId(g->id());
  }
  const std::vector<Tensor*> mainTensors = copy->mainGraph().copyFrom(mainGraph(), graphs);
  for (const Graph* g : present) {
    if (!g->isMain()) graphs[static_cast<size_t>(g->index())]->copyFrom(*g, graphs);
  }
  for (const Stream& s : streams_) {
    copy->streams_.push_back({mainTensors[static_cast<size_t>(s.tensor->index())], s.direction});
  }
  for (const auto& b : remoteBuffers_) copy->remoteBuffers_.push_back(std::make_unique<RemoteBuffer>(*b));
  copy->options_ = options_;
  copy->hostTransfers_ = hostTransfers_;
  copy->setCounters(counters());
  return copy;
}

}  // namespace popxl::ir
