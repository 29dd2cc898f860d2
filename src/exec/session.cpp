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
  for (int64_t r = static_cast<int64_t>(variables_.size()); r < replicas_; ++r) {
    variables_.emplace_back(program_->variableBytes);
    remote_.emplace_back(*program_);
  }
  frame_ = std::make_unique<Arena>(program_->main().frameBytes);
}

void Session::detach() {
  const std::unique_lock<std::mutex> lock = use(running_);
  frame_.reset();
}

int64_t Session::rowOf(const ir::Tensor& variable, int64_t replica) const {
  const auto& groups = variable.settings().groupOf;
  return groups.empty() ? 0 : groups[static_cast<size_t>(replica) % groups.size()];
}

/// Shards go round the replicas of a group in order, several times when there are fewer than replicas.
int64_t Session::shardOf(const compile::RemoteVariable& variable, int64_t replica) const {
  const int64_t bytes = variable.tensor->type().bytes();
  if (bytes <= variable.shardBytes) return 0;
  int64_t place = 0;
  for (int64_t r = 0; r < replica; ++r)
    place += rowOf(*variable.tensor, r) == rowOf(*variable.tensor, replica);
  return place % ((bytes + variable.shardBytes - 1) / variable.shardBytes);
}

void Session::weightsFromHost() {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!attached())
    fail(ErrorKind::kValue, "weights_from_host needs an attached session; use it inside `with session:`");
  for (const auto& [t, offset] : program_->variableOffsets) {
    const ir::Tensor* own = ir_->mainGraph().find(t->name());
    const int64_t bytes = t->type().bytes();
    for (int64_t r = 0; r < replicas_; ++r) {
      const int64_t row = rowOf(*own, r);
      POPXL_ASSERT((row + 1) * bytes <= own->data()->size, "row {} of {}", row, t->id());
      std::memcpy(variables_[static_cast<size_t>(r)].base() + offset, own->data()->bytes + row * bytes,
                  static_cast<size_t>(bytes));
    }
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    const ir::Tensor* own = ir_->mainGraph().find(v.tensor->name());
    for (int64_t r = 0; r < replicas_; ++r) {
      const std::byte* row = own->data()->bytes + rowOf(*own, r) * v.tensor->type().bytes();
      remote_[static_cast<size_t>(r)].read(v, shardOf(v, r), row);
    }
  }
  failed_ = false;
  prepared_ = false;
}

/// Brings what only fixed variables and constants determine up to date.
void Session::prepare() {
  for (Arena& variables : variables_) engine_->prepare(frame_->base(), variables.base());
  prepared_ = true;
}

void Session::weightsToHost() {
  const std::unique_lock<std::mutex> lock = use(running_);
  if (!attached())
    fail(ErrorKind::kValue, "weights_to_host needs an attached session; use it inside `with session:`");
  if (failed_) return;  // the host keeps the last good values
  for (const auto& [t, offset] : program_->variableOffsets) {
    const ir::Tensor* own = ir_->mainGraph().find(t->name());
    const int64_t bytes = t->type().bytes();
    for (int64_t r = replicas_; r-- > 0;) {  // the first replica of a group speaks for it
      const int64_t row = rowOf(*own, r);
      std::memcpy(own->data()->bytes + row * bytes, variables_[static_cast<size_t>(r)].base() + offset,
                  static_cast<size_t>(bytes));
    }
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    const ir::Tensor* own = ir_->mainGraph().find(v.tensor->name());
    for (int64_t r = replicas_; r-- > 0;) {
      std::byte* row = own->data()->bytes + rowOf(*own, r) * v.tensor->type().bytes();
      remote_[static_cast<size_t>(r)].write(v, shardOf(v, r), row);
    }
  }
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
  for (int64_t r = 0; r < replicas_; ++r) {
    for (StreamCursor& cursor : cursors_) cursor.next = 0;
    const auto i = static_cast<size_t>(r);
    engine_->run(frame_->base(), variables_[i].base(), remote_[i], cursors_, r, replicas_);
  }
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
  int64_t bytes = program_->constantBytes + (frame_ == nullptr ? 0 : frame_->touchedBytes());
  for (const Arena& a : variables_) bytes += a.touchedBytes();
  for (const RemoteMemory& r : remote_) bytes += r.touchedBytes();
  return bytes;
}

}  // namespace popxl::exec
