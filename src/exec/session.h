#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/program.h"
#include "exec/arena.h"
#include "exec/engine.h"
#include "exec/exchange.h"
#include "exec/memory.h"
#include "exec/recorder.h"
#include "popxl/engine.h"
#include "popxl/remote_storage.h"

namespace popxl::exec {

/// Host memory for one stream: `entries` tensors per replica, laid out (entries, replicas, shape...).
struct StreamBuffer {
  std::string stream;
  void* data;
  int64_t entries;
};

/// A compiled program and its memory: variables live in it between runs.
class Session {
 public:
  /// Compiles where the engine needs that. Error(kGraph) as compile::compile.
  /// Where remote buffers are kept in files and these are there already, variables in them have the values
  /// of the files, on the host too. Error(kValue) and Error(kRuntime) as RemoteMemory, and when the files of
  /// several processes are of no common state.
  explicit Session(std::shared_ptr<ir::Ir> ir, EngineKind kind = EngineKind::kCompiled,
                   RemoteStorage storage = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }
  std::shared_ptr<ir::Ir> compiledIr() const { return program_->ir; }
  const compile::Program& program() const { return *program_; }

  /// While attached a session owns its memory and can run, and has the files of its remote buffers for
  /// itself; then they are on the disk. Attaching twice or detaching twice changes nothing. In a process that
  /// was forked from that of the session, detaching leaves the files to the other one, and all else is
  /// Error(kRuntime) where there are files or several instances.
  void attach();
  void detach();
  bool attached() const { return frames_ != nullptr; }
  /// Whether the last run failed half way, so that the variables are not to be trusted.
  bool failed() const { return failed_; }

  /// Variables from the Ir's host data to the session, and back; of all processes at once where there are
  /// several. Error(kValue) when detached.
  void weightsFromHost();
  void weightsToHost();
  /// Of a variable of the Ir that retrieves the values of all replicas, these values, one after another, as
  /// they last came to the host. Nothing when none did, or they are those of the replicas' groups.
  std::optional<std::vector<std::byte>> replicaValues(const ir::Tensor& variable) const;
  /// Every replica has the host's value of its group next.
  void forgetReplicaValues(const ir::Tensor& variable) { replicaValues_.erase(variable.name()); }

  /// Brings remote buffers in files to the disk, as they are after the last run. Error(kValue) when detached.
  void flushRemoteBuffers();

  /// Runs the main graph once. Every stream that the program uses must have a buffer;
  /// others are ignored. On an Error while running, further runs are refused until weightsFromHost, and
  /// remote buffers in files are as they were before. Error(kValue) for missing streams or when detached.
  void run(std::span<const StreamBuffer> buffers);

  /// Takes the time of every instruction of the runs until stopProfile, which tells where it went.
  /// `peaks`: what the machine can do, measured now if not given. Error(kValue) from startProfile while a
  /// profile is being taken, from stopProfile when none is.
  void startProfile(const std::optional<MachinePeaks>& peaks = std::nullopt);
  Profile stopProfile();

  /// Known before running; what attached sessions take.
  MemoryReport memory() const;
  /// Bytes of frame and variables that were touched so far, in whole pages; constants count as they are.
  int64_t touchedBytes() const;

 private:
  std::unique_lock<std::mutex> use();
  bool isOfParent() const;
  void leaveToParent();
  void setCursors(std::span<const StreamBuffer> buffers);
  void openRemote();
  void adoptRemoteVariables();
  std::vector<int64_t> commitsOfAll();
  void alignCommits();
  void meetBeforeStores();
  [[noreturn]] void failOfDifferentRuns(const std::vector<int64_t>& commits) const;
  void storeRemoteVariables();
  void remoteToHost(const compile::RemoteVariable& variable);
  template <typename Work>
  void mayFailAlone(const Work& work);
  template <typename Work>
  void committed(const Work& work);
  template <typename Value, typename Join>
  void toHost(const ir::Tensor& own, int64_t bytes, const Value& value, const Join& join);
  bool keepsEach(const ir::Tensor& variable) const;
  const std::byte* hostValue(const ir::Tensor& variable, int64_t replica) const;
  void dropOldValues();
  void prepare();
  Memory memoryOfRun();
  std::byte* shared() const { return variables_->base() + program_->variableBytes * replicas_; }

  std::shared_ptr<ir::Ir> ir_;
  std::shared_ptr<const compile::Program> program_;
  std::vector<bool> streamUsed_;
  std::vector<StreamCursor> cursors_;  // of the run, one per stream of the program
  Exchange exchange_;
  int64_t replicas_;                  // of this process
  std::unique_ptr<Arena> frames_;     // of the workers, then of the replicas, then for the exchange
  std::unique_ptr<Arena> variables_;  // of the replicas, then what they share
  RemoteStorage storage_;
  std::unique_ptr<RemoteMemory> remote_;
  std::vector<Lane> lanes_;
  std::map<std::string, std::vector<std::byte>> replicaValues_;  // by variable, see replicaValues
  std::vector<std::byte*> workerFrames_;
  std::byte* exchangeMemory_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Recorder> recorder_;  // while a profile is being taken
  MachinePeaks peaks_;
  bool failed_ = false;
  bool prepared_ = false;  ///< the program's preparation ran on these variables
  std::mutex running_;
  int32_t process_;  // that made or attached it
};

/// Work that may fail on this process alone: the others do not wait for it then.
template <typename Work>
void Session::mayFailAlone(const Work& work) {
  try {
    work();
  } catch (...) {
    exchange_.fail();
    throw;
  }
}

}  // namespace popxl::exec
