// The one part that needs MPI, in a library of its own that is loaded when several processes run a program.

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/cluster.h"

namespace popxl::dist {
namespace {

constexpr int kGoodbye = 1;       // tag of the message that a process sends when it ends
constexpr int kData = 2;          // of all others
constexpr int64_t kSpins = 2000;  // looks before a wait offers its core to others
constexpr std::chrono::milliseconds kYielding{20};
constexpr long kNapNanoseconds = 50'000;   // between looks from then on
constexpr std::chrono::seconds kGrace{2};  // for the last data of a process that has ended

/// What this process waits for; read by the signal handler.
std::atomic<const char*> activity{"starting"};
std::atomic<bool> waiting{false}, finished{false};
int32_t ownIndex = 0;
pid_t ownProcess = 0;  // not one that it forked, which must not end anything for it

/// Only what a signal handler may do.
void write(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  [[maybe_unused]] const auto done = ::write(STDERR_FILENO, text, length);
}

/// "instance 3 was waiting for the others in all_reduce at train.py:7: what"
void report(const char* what) {
  char number[16];
  size_t at = sizeof number - 1;
  number[at] = 0;
  for (int32_t rest = ownIndex; at == sizeof number - 1 || rest > 0; rest /= 10)
    number[--at] = static_cast<char>('0' + rest % 10);
  write("popxl: instance ");
  write(number + at);
  write(waiting ? " was waiting for the others in " : " was busy after ");
  write(activity);
  write(what);
  write("\n");
}

/// The launcher ends all processes with this signal when one of them died.
void onTerminate(int) {
  if (!finished && ::getpid() == ownProcess) report(" when the run was ended");
  _exit(128 + SIGTERM);
}

/// Asks `done` again and again: data move while it looks. After a moment it lets others have the core before
/// each look, and sleeps between them when it takes long.
template <typename Done>
void waitUntil(const Done& done) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point patience = Clock::time_point::max();
  for (int64_t looks = 0; !done(); ++looks) {
    if (looks < kSpins) continue;
    if (looks == kSpins) patience = Clock::now() + kYielding;
    if (Clock::now() < patience) {
      sched_yield();
    } else {
      const timespec nap{0, kNapNanoseconds};
      nanosleep(&nap, nullptr);
    }
  }
}

class MpiCluster final : public Cluster {
 public:
  MpiCluster() {
    MPI_Comm_dup(MPI_COMM_WORLD, &exchange_);
    MPI_Comm_dup(MPI_COMM_WORLD, &goodbyes_);
    MPI_Comm_size(exchange_, &size_);
    MPI_Comm_rank(exchange_, &index_);
    ownIndex = index_;
    ownProcess = ::getpid();
  }

  int32_t size() const override { return size_; }
  int32_t index() const override { return index_; }
  void setActivity(const char* what) override { activity = what; }

  void allGather(const void* mine, int64_t bytes, void* all) override {
    const Units units = unitsOf(bytes);
    requests_.assign(1, MPI_REQUEST_NULL);
    MPI_Iallgather(mine, units.count, units.type, all, units.count, units.type, exchange_, requests_.data());
    wait(requests_);
  }

  void exchange(std::span<const Message> sends, std::span<const Message> receives) override {
    requests_.clear();
    for (const Message& m : receives) {
      const Units units = unitsOf(m.bytes);
      MPI_Irecv(m.at, units.count, units.type, m.peer, kData, exchange_, &requests_.emplace_back());
    }
    for (const Message& m : sends) {
      const Units units = unitsOf(m.bytes);
      MPI_Isend(m.at, units.count, units.type, m.peer, kData, exchange_, &requests_.emplace_back());
    }
    wait(requests_);
  }

  void leave() override {
    if (left_) return;
    left_ = true;
    for (int i = 0; i < size_; ++i) {
      MPI_Request request;
      MPI_Isend(nullptr, 0, MPI_BYTE, i, kGoodbye, goodbyes_, &request);
      MPI_Request_free(&request);
    }
  }

  /// Leaves, and waits until all have.
  void finish() {
    finished = true;
    leave();
    for (int i = 0; i < size_; ++i) {
      waitUntil([&] { return saidGoodbye(i); });
      MPI_Recv(nullptr, 0, MPI_BYTE, i, kGoodbye, goodbyes_, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
  }

 private:
  struct Units {
    int count;
    MPI_Datatype type;
  };

  static Units unitsOf(int64_t bytes) {
    const int64_t count = bytes % 8 == 0 ? bytes / 8 : bytes;
    if (count > INT_MAX) {
      report(
          ": more is to be exchanged at once than MPI counts (16 GiB in words of 8 bytes, 2 GiB of other "
          "sizes)");
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    return {static_cast<int>(count), bytes % 8 == 0 ? MPI_UINT64_T : MPI_BYTE};
  }

  bool saidGoodbye(int process, int* who = nullptr) {
    int found = 0;
    MPI_Status status;
    MPI_Iprobe(process, kGoodbye, goodbyes_, &found, &status);
    if (found != 0 && who != nullptr) *who = status.MPI_SOURCE;
    return found != 0;
  }

  /// A process that ended can't take part any more, unless it already did: then the run ends, it does not
  /// hang.
  void wait(std::vector<MPI_Request>& requests) {
    using Clock = std::chrono::steady_clock;
    waiting = true;
    Clock::time_point latest = Clock::time_point::max();
    waitUntil([&] {
      int done = 0, ended = 0;
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done == 0 && saidGoodbye(MPI_ANY_SOURCE, &ended)) {
        if (latest == Clock::time_point::max()) latest = Clock::now() + kGrace;
        if (Clock::now() > latest) endRun(ended);
      }
      return done != 0;
    });
    waiting = false;
  }

  [[noreturn]] static void endRun(int ended) {
    report((", but instance " + std::to_string(ended) + " has ended without it").c_str());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    std::abort();
  }

  MPI_Comm exchange_ = MPI_COMM_NULL, goodbyes_ = MPI_COMM_NULL;
  int size_ = 1, index_ = 0;
  bool left_ = false;
  std::vector<MPI_Request> requests_;
};

MpiCluster* only = nullptr;

void finishAtExit() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && ::getpid() == ownProcess) only->finish();
}

}  // namespace
}  // namespace popxl::dist

/// Starts MPI. Null with a reason in `problem` where that is not possible.
extern "C" popxl::dist::Cluster* popxlStartMpi(const char** problem) {
  using namespace popxl::dist;
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0) {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
      *problem = "MPI_Init_thread failed";
      return nullptr;
    }
    if (provided < MPI_THREAD_SERIALIZED) {
      *problem = "this MPI does not let one thread after the other call it";
      return nullptr;
    }
  }
  struct sigaction action = {};
  if (sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    action.sa_handler = onTerminate;
    sigaction(SIGTERM, &action, nullptr);
  }
  only = new MpiCluster;  // as long as the process: other libraries may use it while they end
  std::atexit(finishAtExit);
  return only;
}
