#include "exec/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/logging.h"
#include "compile/compile.h"
#include "exec/executable_cache.h"
#include "exec/executor.h"
#include "exec/interpreter.h"
#include "exec/user_code.h"
#include "kernels/copy.h"

namespace popxl::exec {

namespace {

/// Notes the streams that a graph and those it calls use.
void findStreams(const ir::Graph& graph, std::set<const ir::Graph*>& seen, std::set<std::string>& used) {
  if (!seen.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    const ir::Structure structure = op->def().structure;
    if (structure == ir::Structure::kHostLoad || structure == ir::Structure::kHostStore)
      used.insert(op->attr<std::string>("stream"));
    for (const ir::Graph* callee : op->calledGraphs()) findStreams(*callee, seen, used);
  }
}

}  // namespace

/// The session for one caller at a time.
std::unique_lock<std::mutex> Session::use() {
  if (UserCode::isRunning()) {
    fail(ErrorKind::kRuntime,
         "the function of an op can't use a session, as one is running that waits for the function");
  }
  if (isOfParent()) {
    fail(ErrorKind::kRuntime,
         "this process was forked from the one that the session belongs to, which {}; use the session there, "
         "or make one here that shares nothing with it",
         exchange_.alone() ? "keeps remote buffers in " + storage_.directory : "is one of several instances");
  }
  return std::unique_lock<std::mutex>(running_);
}

int& UserCode::depth() {
  thread_local int depth = 0;
  return depth;
}

Session::Session(std::shared_ptr<ir::Ir> ir, EngineKind kind, RemoteStorage storage)
    : ir_(std::move(ir)),
      exchange_(*ir_),
      replicas_(exchange_.lanes()),
      storage_(std::move(storage)),
      process_(::getpid()) {
  if (storage_.ramBytes < 0) {
    fail(ErrorKind::kValue, "{} bytes of RAM for remote buffers: it must not be negative", storage_.ramBytes);
  }
  refreshLogLevel();
  if (kind == EngineKind::kCompiled) {
    const auto cache = ExecutableCache::open(*ir_);
    const ResultStore::Use results(cache == nullptr ? nullptr : &cache->results());
    if (cache == nullptr || !cache->load()) log().info("Starting compilation");
    program_ = compile::compile(*ir_);
    if (cache != nullptr) cache->save();
    engine_ = std::make_unique<Executor>(*program_, exchange_);
  } else {
    program_ = compile::prepare(*ir_);
    engine_ = std::make_unique<Interpreter>(*program_, &exchange_);
  }
  checkConditions(*program_);
  ir_->markSessionMade();
  cursors_.resize(program_->streams.size());
  std::set<const ir::Graph*> seen;
  std::set<std::string> used;
  findStreams(program_->ir->mainGraph(), seen, used);
  for (const ir::Stream& s : program_->streams) streamUsed_.push_back(used.contains(s.id()));
  if (!storage_.directory.empty()) adoptRemoteVariables();
}

Session::~Session() { leaveToParent(); }

void Session::attach() {
  const std::unique_lock<std::mutex> lock = use();
  if (attached()) return;
  process_ = ::getpid();
  const compile::Code& main = program_->main();
  if (remote_ == nullptr) mayFailAlone([&] { openRemote(); });
  if (variables_ == nullptr) {
    variables_ = std::make_unique<Arena>(program_->variableBytes * replicas_ + program_->sharedBytes);
    lanes_.resize(static_cast<size_t>(replicas_));
  }
  const int64_t workers = workersFor(replicas_);
  const int64_t lanes = main.frameBytes * workers, end = lanes + main.laneBytes * replicas_;
  frames_ = std::make_unique<Arena>(end + Exchange::bytesFor(*program_));
  for (int64_t w = 0; w < workers; ++w) workerFrames_.push_back(frames_->base() + w * main.frameBytes);
  for (int64_t r = 0; r < replicas_; ++r) {
    Lane& lane = lanes_[static_cast<size_t>(r)];
    lane.variables = variables_->base() + r * program_->variableBytes;
    lane.frame = frames_->base() + lanes + r * main.laneBytes;
    lane.remote = remote_.get();
  }
  exchangeMemory_ = frames_->base() + end;
}

void Session::detach() {
  if (isOfParent()) return leaveToParent();
  const std::unique_lock<std::mutex> lock = use();
  frames_.reset();
  workerFrames_.clear();
  if (storage_.directory.empty() || remote_ == nullptr) return;
  const std::unique_ptr<RemoteMemory> files = std::move(remote_);
  files->entries().sync();
}

Memory Session::memoryOfRun() { return {lanes_, workerFrames_, shared(), exchangeMemory_}; }

namespace {

/// The shard of a sharded variable that a replica has; 0 of others.
int64_t shardOf(const ir::Tensor& variable, int64_t replica) {
  const std::vector<int32_t>& shards = variable.settings().shardOf;
  return shards.empty() ? 0 : shards[static_cast<size_t>(replica) % shards.size()];
}

/// The row of the host's value of a variable that a replica has.
int64_t rowOf(const ir::Tensor& variable, int64_t replica) {
  const auto& groups = variable.settings().groupOf;
  return groups.empty() ? 0 : groups[static_cast<size_t>(replica) % groups.size()];
}

}  // namespace

// Replicas are numbered over all processes here.

/// Whether the host keeps what each replica has, not only what the first of each group has.
bool Session::keepsEach(const ir::Tensor& variable) const {
  return variable.settings().retrieveAllReplicas && variable.settings().numGroups < exchange_.replicas();
}

/// The host's values of a variable for a replica: of its own, if they are known, else of its group.
const std::byte* Session::hostValue(const ir::Tensor& variable, int64_t replica) const {
  const int64_t bytes = variable.type().bytes();
  if (const auto each = replicaValues_.find(variable.name()); each != replicaValues_.end())
    return each->second.data() + replica * bytes;
  const int64_t row = rowOf(variable, replica);
  POPXL_ASSERT((row + 1) * bytes <= variable.data()->size, "row {} of {}", row, variable.id());
  return variable.data()->bytes + row * bytes;
}

/// Forgets values of replicas where the host's value of their group has been written since.
void Session::dropOldValues() {
  std::erase_if(replicaValues_, [&](const auto& known) {
    const ir::Tensor& own = *ir_->mainGraph().find(known.first);
    const int64_t bytes = own.type().bytes();
    std::vector<bool> seen(static_cast<size_t>(own.settings().numGroups), false);
    for (int64_t r = 0; r < exchange_.replicas(); ++r) {
      const int64_t row = rowOf(own, r);
      if (seen[static_cast<size_t>(row)]) continue;
      seen[static_cast<size_t>(row)] = true;
      const std::byte* first = known.second.data() + r * bytes;
      if (!std::equal(first, first + bytes, own.data()->bytes + row * bytes)) return true;
    }
    return false;
  });
}

void Session::weightsFromHost() {
  const std::unique_lock<std::mutex> lock = use();
  if (!attached())
    fail(ErrorKind::kValue, "weights_from_host needs an attached session; use it inside `with session:`");
  dropOldValues();
  for (const auto& [t, place] : program_->variablePlaces) {
    const ir::Tensor* own = ir_->mainGraph().find(t->name());
    for (int64_t r = 0; r < (place.shared ? 1 : replicas_); ++r) {
      std::byte* to = place.shared ? shared() : lanes_[static_cast<size_t>(r)].variables;
      kernels::copyBytes(hostValue(*own, exchange_.first() + r), to + place.offset, t->type().bytes(),
                         kernels::After::kLeft);
    }
  }
  mayFailAlone([&] { committed([&] { storeRemoteVariables(); }); });
  failed_ = false;
  prepared_ = false;
}

void Session::storeRemoteVariables() {
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    const ir::Tensor* own = ir_->mainGraph().find(v.tensor->name());
    // The host can't have a newer value of what it can't write.
    if (!own->data()->writable && remote_->isKept(v)) continue;
    for (int64_t lane = 0; lane < replicas_; ++lane) {
      const int64_t replica = exchange_.first() + lane;
      remote_->storeShard(v, lane, shardOf(*own, replica), hostValue(*own, replica));
    }
  }
}

/// Brings what only fixed variables and constants determine up to date.
void Session::prepare() {
  engine_->prepare(memoryOfRun());
  prepared_ = true;
}

void Session::weightsToHost() {
  const std::unique_lock<std::mutex> lock = use();
  if (!attached())
    fail(ErrorKind::kValue, "weights_to_host needs an attached session; use it inside `with session:`");
  if (failed_) return;  // the host keeps the last good values
  for (const auto& [t, place] : program_->variablePlaces) {
    if (place.shared) continue;  // never written
    const int64_t offset = place.offset, bytes = t->type().bytes();
    toHost(
        *ir_->mainGraph().find(t->name()), bytes,
        [&](int64_t lane) { return lanes_[static_cast<size_t>(lane)].variables + offset; },
        [&](int64_t, const std::byte* from, std::byte* to) {
          kernels::copyBytes(from, to, bytes, kernels::After::kLeft);
        });
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) remoteToHost(v);
}

/// Brings a variable to the host: `value(lane)` is the piece of `bytes` bytes that a replica of this process
/// has, `join(shard, piece, whole)` puts one where it belongs in the whole value.
template <typename Value, typename Join>
void Session::toHost(const ir::Tensor& own, int64_t bytes, const Value& value, const Join& join) {
  const bool each = keepsEach(own);
  // The first replica of a group that has a shard speaks for it, unless all are asked.
  std::vector<int64_t> speakers;
  std::set<std::pair<int64_t, int64_t>> spoken;
  for (int64_t r = 0; r < exchange_.replicas(); ++r) {
    if (spoken.emplace(rowOf(own, r), shardOf(own, r)).second || each) speakers.push_back(r);
  }
  const Exchange::Pieces pieces = exchange_.collect(speakers, bytes, value);
  const int64_t whole = own.type().bytes();
  for (size_t i = speakers.size(); i-- > 0;) {
    join(shardOf(own, speakers[i]), pieces.at[i], own.data()->bytes + rowOf(own, speakers[i]) * whole);
  }
  if (!each) return;
  auto& values = replicaValues_[own.name()];
  values.resize(static_cast<size_t>(whole * exchange_.replicas()));
  for (size_t r = 0; r < speakers.size(); ++r) {  // other shards are those of its group
    std::byte* to = values.data() + static_cast<int64_t>(r) * whole;
    const auto row = rowOf(own, speakers[r]);
    std::memcpy(to, own.data()->bytes + row * whole, static_cast<size_t>(whole));
    join(shardOf(own, speakers[r]), pieces.at[r], to);
  }
}

void Session::remoteToHost(const compile::RemoteVariable& v) {
  std::vector<std::vector<std::byte>> values;
  const auto value = [&](int64_t lane) {
    remote_->loadShard(v, lane, values.emplace_back(static_cast<size_t>(v.shardBytes)).data());
    return values.back().data();
  };
  const auto join = [&](int64_t shard, const std::byte* from, std::byte* to) {
    RemoteMemory::join(v, shard, from, to);
  };
  mayFailAlone([&] { toHost(*ir_->mainGraph().find(v.tensor->name()), v.shardBytes, value, join); });
}

/// Commits what the work stores in remote buffers, or if it fails, nothing.
template <typename Work>
void Session::committed(const Work& work) {
  meetBeforeStores();
  try {
    work();
    remote_->entries().commit();
  } catch (...) {
    remote_->entries().rollBack();
    throw;
  }
}

std::optional<std::vector<std::byte>> Session::replicaValues(const ir::Tensor& variable) const {
  const auto each = replicaValues_.find(variable.name());
  return each == replicaValues_.end() ? std::nullopt : std::optional(each->second);
}

void Session::setCursors(std::span<const StreamBuffer> buffers) {
  for (size_t i = 0; i < cursors_.size(); ++i) {
    const std::string& id = program_->streams[i].id();
    const auto buffer =
        std::find_if(buffers.begin(), buffers.end(), [&](const StreamBuffer& b) { return b.stream == id; });
    if (buffer != buffers.end()) {
      cursors_[i] = {static_cast<std::byte*>(buffer->data), buffer->entries, 0};
    } else if (streamUsed_[i]) {
      fail(ErrorKind::kValue, "the program uses stream `{}`, for which the run was given no data", id);
    } else {
      cursors_[i] = {};
    }
  }
}

void Session::run(std::span<const StreamBuffer> buffers) {
  const std::unique_lock<std::mutex> lock = use();
  if (!attached())
    fail(ErrorKind::kValue, "a session runs only while attached; use it inside `with session:`");
  if (failed_) {
    fail(ErrorKind::kDevice,
         "the last run of this session failed half way, so its variables may be half updated; write them "
         "again (write_variables_data or weights_from_host) before the next run");
  }
  mayFailAlone([&] {
    setCursors(buffers);
    if (!prepared_) prepare();
    failed_ = true;
    for (Lane& lane : lanes_) lane.streams = cursors_;
    committed([&] {
      remote_->entries().beginRun();
      engine_->run(memoryOfRun());
    });
    failed_ = false;
  });
}

void Session::startProfile(const std::optional<MachinePeaks>& peaks) {
  const std::unique_lock<std::mutex> lock = use();
  if (!engine_->hasInstructions())
    fail(ErrorKind::kValue, "the reference engine has no instructions to time; profile a compiled session");
  if (recorder_ != nullptr)
    fail(ErrorKind::kValue, "a profile of this session is being taken; end it before the next begins");
  peaks_ = peaks ? *peaks : MachinePeaks::measure();
  recorder_ = std::make_unique<Recorder>(*program_);
  engine_->setRecorder(recorder_.get());
}

Profile Session::stopProfile() {
  const std::unique_lock<std::mutex> lock = use();
  if (recorder_ == nullptr)
    fail(ErrorKind::kValue, "no profile of this session is being taken; begin one before the runs");
  engine_->setRecorder(nullptr);
  const std::unique_ptr<Recorder> recorder = std::move(recorder_);
  return recorder->profile(peaks_);
}

MemoryReport Session::memory() const { return memoryOf(*program_, replicas_, storage_); }

int64_t Session::touchedBytes() const {
  int64_t bytes = program_->constantBytes;
  for (const auto* arena : {frames_.get(), variables_.get()})
    bytes += arena == nullptr ? 0 : arena->touchedBytes();
  return bytes + (remote_ == nullptr ? 0 : remote_->touchedBytes());
}

}  // namespace popxl::exec
