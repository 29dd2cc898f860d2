#include "exec/session.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/logging.h"
#include "compile/compile.h"
#include "exec/executor.h"
#include "exec/interpreter.h"
#include "exec/user_code.h"

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

/// A session for one caller at a time.
std::unique_lock<std::mutex> use(std::mutex& session) {
  if (UserCode::isRunning()) {
    fail(ErrorKind::kRuntime,
         "the function of an op can't use a session, as one is running that waits for the function");
  }
  return std::unique_lock<std::mutex>(session);
}

}  // namespace

int& UserCode::depth() {
  thread_local int depth = 0;
  return depth;
}

Session::Session(std::shared_ptr<ir::Ir> ir, EngineKind kind) : ir_(std::move(ir)) {
  refreshLogLevel();
  if (kind == EngineKind::kCompiled) {
    log().info("Starting compilation");
    program_ = compile::compile(*ir_);
    engine_ = std::make_unique<Executor>(*program_);
  } else {
    program_ = compile::prepare(*ir_);
    engine_ = std::make_unique<Interpreter>(*program_);
  }
  checkConditions(*program_);
  ir_->markSessionMade();
  replicas_ = ir_->instanceReplicationFactor();
  cursors_.resize(program_->streams.size());
  std::set<const ir::Graph*> seen;
  std::set<std::string> used;
  findStreams(program_->ir->mainGraph(), seen, used);
  for (const ir::Stream& s : program_->streams) streamUsed_.push_back(used.contains(s.id()));
}

void Session::attach() {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (attached()) return;
  const compile::Code& main = program_->main();
  if (variables_ == nullptr) {
    variables_ = std::make_unique<Arena>(program_->variableBytes * replicas_ + program_->sharedBytes);
    for (int64_t r = 0; r < replicas_; ++r) remote_.emplace_back(*program_);
    lanes_.resize(static_cast<size_t>(replicas_));
  }
  const int64_t workers = workersFor(replicas_);
  frames_ = std::make_unique<Arena>(main.frameBytes * workers + main.laneBytes * replicas_);
  for (int64_t w = 0; w < workers; ++w) workerFrames_.push_back(frames_->base() + w * main.frameBytes);
  for (int64_t r = 0; r < replicas_; ++r) {
    Lane& lane = lanes_[static_cast<size_t>(r)];
    lane.variables = variables_->base() + r * program_->variableBytes;
    lane.frame = frames_->base() + workers * main.frameBytes + r * main.laneBytes;
    lane.remote = &remote_[static_cast<size_t>(r)];
  }
}

void Session::detach() {
  const std::unique_lock<std::mutex> lock = use(running_);
  frames_.reset();
  workerFrames_.clear();
}

Memory Session::memoryOfRun() { return {lanes_, workerFrames_, shared()}; }

namespace {

/// The shard of a sharded variable that a replica has; 0 of others.
int64_t shardOf(const ir::Tensor& variable, int64_t replica) {
  const std::vector<int32_t>& shards = variable.settings().shardOf;
  return shards.empty() ? 0 : shards[static_cast<size_t>(replica) % shards.size()];
}

}  // namespace

int64_t Session::rowOf(const ir::Tensor& variable, int64_t replica) const {
  const auto& groups = variable.settings().groupOf;
  return groups.empty() ? 0 : groups[static_cast<size_t>(replica) % groups.size()];
}

/// Whether the host keeps what each replica has, not only what the first of each group has.
bool Session::keepsEach(const ir::Tensor& variable) const {
  return variable.settings().retrieveAllReplicas && variable.settings().numGroups < replicas_;
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
    for (int64_t r = 0; r < replicas_; ++r) {
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
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!attached())
    fail(ErrorKind::kValue, "weights_from_host needs an attached session; use it inside `with session:`");
  dropOldValues();
  for (const auto& [t, place] : program_->variablePlaces) {
    const ir::Tensor* own = ir_->mainGraph().find(t->name());
    for (int64_t r = 0; r < (place.shared ? 1 : replicas_); ++r) {
      std::byte* to = place.shared ? shared() : lanes_[static_cast<size_t>(r)].variables;
      std::memcpy(to + place.offset, hostValue(*own, r), static_cast<size_t>(t->type().bytes()));
    }
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    const ir::Tensor* own = ir_->mainGraph().find(v.tensor->name());
    for (int64_t r = 0; r < replicas_; ++r)
      remote_[static_cast<size_t>(r)].read(v, shardOf(*own, r), hostValue(*own, r));
  }
  failed_ = false;
  prepared_ = false;
}

/// Brings what only fixed variables and constants determine up to date.
void Session::prepare() {
  engine_->prepare(memoryOfRun());
  prepared_ = true;
}

void Session::weightsToHost() {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!attached())
    fail(ErrorKind::kValue, "weights_to_host needs an attached session; use it inside `with session:`");
  if (failed_) return;  // the host keeps the last good values
  for (const auto& [t, place] : program_->variablePlaces) {
    if (place.shared) continue;  // never written
    const ir::Tensor* own = ir_->mainGraph().find(t->name());
    const int64_t bytes = t->type().bytes();
    const auto value = [&](int64_t r) { return lanes_[static_cast<size_t>(r)].variables + place.offset; };
    for (int64_t r = replicas_; r-- > 0;) {  // the first replica of a group speaks for it
      std::memcpy(own->data()->bytes + rowOf(*own, r) * bytes, value(r), static_cast<size_t>(bytes));
    }
    if (!keepsEach(*own)) continue;
    auto& each = replicaValues_[own->name()];
    each.resize(static_cast<size_t>(bytes * replicas_));
    for (int64_t r = 0; r < replicas_; ++r)
      std::memcpy(each.data() + r * bytes, value(r), static_cast<size_t>(bytes));
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) remoteToHost(v);
}

void Session::remoteToHost(const compile::RemoteVariable& v) {
  const ir::Tensor* own = ir_->mainGraph().find(v.tensor->name());
  const int64_t bytes = v.tensor->type().bytes();
  for (int64_t r = replicas_; r-- > 0;) {
    std::byte* row = own->data()->bytes + rowOf(*own, r) * bytes;
    remote_[static_cast<size_t>(r)].write(v, shardOf(*own, r), row);
  }
  if (!keepsEach(*own)) return;
  auto& each = replicaValues_[own->name()];
  each.resize(static_cast<size_t>(bytes * replicas_));
  const auto fill = [&](int64_t from, int64_t to) {
    remote_[static_cast<size_t>(from)].write(v, shardOf(*own, from), each.data() + to * bytes);
  };
  for (int64_t r = 0; r < replicas_; ++r) {  // other shards from the replicas of its group, then its own
    for (int64_t other = replicas_; other-- > 0;) {
      if (!own->settings().shardOf.empty() && rowOf(*own, other) == rowOf(*own, r)) fill(other, r);
    }
    fill(r, r);
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
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!attached())
    fail(ErrorKind::kValue, "a session runs only while attached; use it inside `with session:`");
  if (failed_) {
    fail(ErrorKind::kDevice,
         "the last run of this session failed half way, so its variables may be half updated; write them "
         "again "
         "(write_variables_data or weights_from_host) before the next run");
  }
  setCursors(buffers);
  if (!prepared_) prepare();
  failed_ = true;
  for (Lane& lane : lanes_) lane.streams = cursors_;
  engine_->run(memoryOfRun());
  failed_ = false;
}

void Session::startProfile(const std::optional<MachinePeaks>& peaks) {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!engine_->hasInstructions())
    fail(ErrorKind::kValue, "the reference engine has no instructions to time; profile a compiled session");
  if (recorder_ != nullptr)
    fail(ErrorKind::kValue, "a profile of this session is being taken; end it before the next begins");
  peaks_ = peaks ? *peaks : MachinePeaks::measure();
  recorder_ = std::make_unique<Recorder>(*program_);
  engine_->setRecorder(recorder_.get());
}

Profile Session::stopProfile() {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (recorder_ == nullptr)
    fail(ErrorKind::kValue, "no profile of this session is being taken; begin one before the runs");
  engine_->setRecorder(nullptr);
  const std::unique_ptr<Recorder> recorder = std::move(recorder_);
  return recorder->profile(peaks_);
}

MemoryReport Session::memory() const { return memoryOf(*program_, replicas_); }

int64_t Session::touchedBytes() const {
  int64_t bytes = program_->constantBytes;
  for (const auto* arena : {frames_.get(), variables_.get()})
    bytes += arena == nullptr ? 0 : arena->touchedBytes();
  for (const RemoteMemory& r : remote_) bytes += r.touchedBytes();
  return bytes;
}

}  // namespace popxl::exec
