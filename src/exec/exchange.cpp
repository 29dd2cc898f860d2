#include "exec/exchange.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "exec/engine.h"

namespace popxl::exec {

namespace {

template <typename F>
void forCollectives(const compile::Program& program, const F& f) {
  for (const compile::Code& code : program.codes) {
    for (const int32_t cut : code.cuts) {
      const auto& what = code.instructions[static_cast<size_t>(cut)].what;
      if (const auto* collective = std::get_if<compile::RunCollective>(&what)) f(*collective);
    }
  }
}

/// The text as long as the process: a signal may ask for the last activity when its session is gone.
const char* kept(std::string text) {
  static std::mutex mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  return texts.insert(std::move(text)).first->c_str();
}

int64_t firstReplica(const ir::Ir& ir) {
  return ir.options().enableDistributedReplicatedGraphs ? ir.options().globalReplicaOffset : 0;
}

}  // namespace

Exchange::Exchange(const ir::Ir& ir)
    : lanes_(ir.instanceReplicationFactor()), first_(firstReplica(ir)), replicas_(ir.replicationFactor()) {
  if (lanes_ == replicas_) return;
  cluster_ = &dist::cluster();
  if (cluster_->size() * lanes_ != replicas_ || cluster_->index() * lanes_ != first_) {
    popxl::fail(
        ErrorKind::kRuntime,
        "the program has {} replicas, of which this process is to run {} from number {} on; that does not "
        "fit process {} of {}, which `poprun` or mpirun made this one",
        replicas_, lanes_, first_, cluster_->index(), cluster_->size());
  }
  from_.resize(static_cast<size_t>(replicas_));
  to_.resize(static_cast<size_t>(replicas_));
}

int64_t Exchange::bytesFor(const compile::Program& program) {
  const int64_t lanes = program.ir->instanceReplicationFactor(), replicas = program.ir->replicationFactor();
  if (lanes == replicas) return 0;
  int64_t most = 0;
  forCollectives(program, [&](const compile::RunCollective& c) {
    most = std::max(most, planExchange(*c.collective, lanes, firstReplica(*program.ir), replicas).bytes);
  });
  return most;
}

void Exchange::prepare(const compile::Program& program) {
  if (alone()) return;
  forCollectives(program, [&](const compile::RunCollective& c) {
    plans_.emplace(&c, planExchange(*c.collective, lanes_, first_, replicas_));
  });
}

/// What this process waits for, should another one be gone. Error(kDevice) after a run that failed here
/// alone.
void Exchange::announce(const char* name) {
  if (left_) {
    popxl::fail(ErrorKind::kDevice,
                "a run failed on this instance and not on all, so that the instances no longer do the same; "
                "start the program again");
  }
  cluster_->setActivity(name);
}

void Exchange::announce(const ir::Op& op) {
  const char*& name = names_[&op];
  if (name == nullptr) {
    name = kept(fmt::format("`{}` at {} (replicas {} to {})", op.name(), op.loc().str(), first_,
                            first_ + lanes_ - 1));
  }
  announce(name);
}

void Exchange::fail() {
  if (alone() || left_ || std::exchange(agreeing_, false)) return;
  left_ = true;
  cluster_->leave();
}

void Exchange::run(const compile::RunCollective& collective, const ir::Op& op,
                   std::span<std::byte* const> from, std::span<std::byte* const> to, std::byte* memory) {
  if (alone()) return collective.collective->run(from, to);
  announce(op);
  const ExchangePlan& plan = plans_.at(&collective);
  const RunMemory places = {from, to, memory, first_};
  runParts(plan.before, places);
  transfer(plan.first, places);
  runParts(plan.parts, places);
  transfer(plan.second, places);
  runCopies(plan.share, places);
}

void Exchange::runParts(const std::vector<LocalPart>& parts, const RunMemory& memory) {
  for (const LocalPart& part : parts) {
    for (size_t r = 0; r < from_.size(); ++r) {
      from_[r] = memory.at(part.from[r]);
      to_[r] = memory.at(part.to[r]);
    }
    part.collective->run(from_, to_);
  }
}

void Exchange::transfer(const Round& round, const RunMemory& memory) {
  const auto messages = [&](const std::vector<Transfer>& transfers, std::vector<dist::Message>& out) {
    out.clear();
    for (const Transfer& t : transfers) out.push_back({t.peer, memory.at(t.at), t.bytes});
  };
  if (round.sends.empty() && round.receives.empty()) return;
  runCopies(round.pack, memory);
  messages(round.sends, sends_);
  messages(round.receives, receives_);
  cluster_->exchange(sends_, receives_);
  runCopies(round.unpack, memory);
}

template <typename Activity, typename T>
std::vector<T> Exchange::gatherAll(const Activity& activity, const std::vector<T>& mine) {
  if (alone()) return mine;
  announce(activity);
  std::vector<T> all(mine.size() * static_cast<size_t>(cluster_->size()));
  cluster_->allGather(mine.data(), static_cast<int64_t>(mine.size() * sizeof(T)), all.data());
  return all;
}

std::vector<std::byte> Exchange::gather(const ir::Op& op, const std::vector<std::byte>& mine) {
  return gatherAll(op, mine);
}

std::vector<int64_t> Exchange::gather(const char* activity, int64_t mine) {
  return gatherAll(activity, std::vector<int64_t>{mine});
}

int64_t Exchange::agree(const ir::Op& op, const std::vector<int64_t>& mine) {
  if (alone()) return agreed(op, mine);
  const std::vector<int64_t> all = gatherAll(op, mine);
  agreeing_ = true;
  const int64_t value = agreed(op, all);
  agreeing_ = false;
  return value;
}

Exchange::Pieces Exchange::collect(const std::vector<int64_t>& replicas, int64_t bytes,
                                   const std::function<const std::byte*(int64_t lane)>& value) {
  Pieces pieces;
  if (alone()) {
    for (const int64_t r : replicas) pieces.at.push_back(value(r));
    return pieces;
  }
  // Every process sends as many pieces as the one with most.
  std::vector<int64_t> sent(static_cast<size_t>(cluster_->size()), 0);
  for (const int64_t r : replicas) ++sent[static_cast<size_t>(r / lanes_)];
  const int64_t room = *std::max_element(sent.begin(), sent.end()) * bytes;
  std::vector<std::byte> mine(static_cast<size_t>(room));
  std::byte* next = mine.data();
  for (const int64_t r : replicas) {
    if (r < first_ || r >= first_ + lanes_) continue;
    std::memcpy(next, value(r - first_), static_cast<size_t>(bytes));
    next += bytes;
  }
  pieces.memory.resize(static_cast<size_t>(room * cluster_->size()));
  announce("copying variables to the host");
  cluster_->allGather(mine.data(), room, pieces.memory.data());
  std::fill(sent.begin(), sent.end(), 0);
  for (const int64_t r : replicas) {
    const int64_t process = r / lanes_, before = sent[static_cast<size_t>(process)]++;
    pieces.at.push_back(pieces.memory.data() + process * room + before * bytes);
  }
  return pieces;
}

}  // namespace popxl::exec
