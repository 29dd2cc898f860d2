#include "exec/exchange_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <random>

namespace popxl::exec {
namespace {

using kernels::Collective;
using kernels::CollectivePtr;
using kernels::CollectiveReduction;
using kernels::ReplicaGroups;
using Bytes = std::vector<std::byte>;

std::vector<std::byte*> pointers(std::vector<Bytes>& memory, size_t first, size_t count) {
  std::vector<std::byte*> out;
  for (size_t i = first; i < first + count; ++i) out.push_back(memory[i].data());
  return out;
}

/// A number of processes, each with its plan and memory, whose steps are run one after another.
class Processes {
 public:
  Processes(const Collective& collective, size_t lanes, std::vector<Bytes>& from, std::vector<Bytes>& to)
      : lanes_(lanes) {
    const size_t replicas = from.size();
    for (size_t first = 0; first < replicas; first += lanes) {
      Process& p = all_.emplace_back();
      p.plan = planExchange(collective, static_cast<int64_t>(lanes), static_cast<int64_t>(first),
                            static_cast<int64_t>(replicas));
      p.memory.resize(static_cast<size_t>(p.plan.bytes), std::byte{0xAA});
      p.from = pointers(from, first, lanes);
      p.to = pointers(to, first, lanes);
      p.places = {p.from, p.to, p.memory.data(), static_cast<int64_t>(first)};
    }
  }

  void run() {
    for (Process& p : all_) runParts(p.plan.before, p);
    exchange(&ExchangePlan::first);
    for (Process& p : all_) runParts(p.plan.parts, p);
    exchange(&ExchangePlan::second);
    for (Process& p : all_) runCopies(p.plan.share, p.places);
  }

  /// The most that a process sends in both rounds.
  int64_t mostSent() const {
    int64_t most = 0;
    for (const Process& p : all_) {
      int64_t bytes = 0;
      for (const Round* round : {&p.plan.first, &p.plan.second}) {
        for (const Transfer& t : round->sends) bytes += t.bytes;
      }
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  struct Process {
    ExchangePlan plan;
    Bytes memory;
    std::vector<std::byte*> from, to;
    RunMemory places;
  };

  void runParts(const std::vector<LocalPart>& parts, const Process& p) const {
    for (const LocalPart& part : parts) {
      std::vector<std::byte*> from, to;
      for (const Place& place : part.from) from.push_back(p.places.at(place));
      for (const Place& place : part.to) to.push_back(p.places.at(place));
      part.collective->run(from, to);
    }
  }

  void exchange(Round ExchangePlan::*which) {
    std::map<std::pair<size_t, size_t>, Bytes> wire;  // sender, receiver
    for (size_t i = 0; i < all_.size(); ++i) {
      const Round& round = all_[i].plan.*which;
      runCopies(round.pack, all_[i].places);
      for (const Transfer& t : round.sends) {
        const std::byte* at = all_[i].places.at(t.at);
        const bool isNew = wire.try_emplace({i, static_cast<size_t>(t.peer)}, at, at + t.bytes).second;
        ASSERT_TRUE(isNew) << "two messages from " << i << " to " << t.peer;
      }
    }
    for (size_t i = 0; i < all_.size(); ++i) {
      const Round& round = all_[i].plan.*which;
      for (const Transfer& t : round.receives) {
        const auto message = wire.extract({static_cast<size_t>(t.peer), i});
        ASSERT_FALSE(message.empty()) << "nothing from " << t.peer << " to " << i;
        ASSERT_EQ(message.mapped().size(), static_cast<size_t>(t.bytes));
        std::memcpy(all_[i].places.at(t.at), message.mapped().data(), message.mapped().size());
      }
      runCopies(round.unpack, all_[i].places);
    }
    ASSERT_TRUE(wire.empty()) << "a message that nobody receives";
  }

  size_t lanes_;
  std::vector<Process> all_;
};

std::vector<Bytes> randomOperands(size_t replicas, DType dtype, int64_t elements, std::mt19937& rng) {
  std::vector<Bytes> out(replicas, Bytes(static_cast<size_t>(elements * sizeOf(dtype))));
  std::normal_distribution<float> normal(0, 100);
  for (Bytes& bytes : out) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(rng());
    if (dtype != DType::kFloat32) continue;
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const float value = normal(rng);
      std::memcpy(bytes.data() + i, &value, 4);
    }
  }
  return out;
}

/// Groups of `size` replicas: neighbours, those `stride` apart, or any.
ReplicaGroups groupsOf(int32_t replicas, int32_t size, int kind, std::mt19937& rng) {
  std::vector<int32_t> order(static_cast<size_t>(replicas));
  for (int32_t r = 0; r < replicas; ++r) {
    const int32_t groups = replicas / size;
    order[static_cast<size_t>(r)] = kind == 1 ? r % size * groups + r / size : r;
  }
  if (kind == 2) std::shuffle(order.begin(), order.end(), rng);
  ReplicaGroups groups;
  for (size_t at = 0; at < order.size(); at += static_cast<size_t>(size)) {
    groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(at),
                        order.begin() + static_cast<std::ptrdiff_t>(at) + size);
    std::sort(groups.back().begin(), groups.back().end());
  }
  return groups;
}

struct Sample {
  CollectivePtr collective;
  int64_t results;  ///< elements
};

Sample sampleOf(int kind, CollectiveReduction reduction, DType dtype, int64_t elements,
                const ReplicaGroups& groups, std::mt19937& rng) {
  const auto size = static_cast<int64_t>(groups.front().size());
  switch (kind) {
    case 0:
      return {kernels::makeAllReduce({reduction, dtype, elements, groups}), elements};
    case 1:
      return {kernels::makeReduceScatter(reduction, dtype, elements, groups), (elements + size - 1) / size};
    case 2: {
      const int64_t total = std::max<int64_t>(0, elements * size - static_cast<int64_t>(rng() % 3));
      return {kernels::makeAllGather(dtype, elements, total, groups), total};
    }
    case 3:
      return {kernels::makeAllToAll(dtype, elements / size * size, groups), elements / size * size};
    default: {
      std::vector<int32_t> sources;
      const auto replicas = static_cast<int32_t>(groups.size() * groups.front().size());
      for (int32_t r = 0; r < replicas; ++r)
        sources.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(replicas + 1)) - 1);
      return {kernels::makePermute(dtype, elements, std::move(sources)), elements};
    }
  }
}

TEST(ExchangePlan, AnySplitOverProcessesGivesTheBitsOfOne) {
  const char* given = std::getenv("POPXL_FUZZ_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : static_cast<uint32_t>(std::atoi(given));
  std::cout << "seed " << seed << std::endl;
  std::mt19937 rng(seed);
  const auto pick = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  constexpr std::array kTypes = {DType::kFloat32, DType::kFloat16, DType::kInt32, DType::kUInt8};
  for (int round = 0; round < 250; ++round) {
    const int32_t lanes = 1 + pick(5), processes = 2 + pick(4), replicas = lanes * processes;
    int32_t size = 1 + pick(replicas);
    while (replicas % size != 0) ++size;
    const ReplicaGroups groups = groupsOf(replicas, size, pick(3), rng);
    const DType dtype = kTypes[static_cast<size_t>(pick(4))];
    const int64_t elements = pick(4) == 0 ? 70'000 + pick(100) : pick(2) == 0 ? pick(8) : size + pick(300);
    const auto reduction = static_cast<CollectiveReduction>(pick(8));
    const int kind = pick(5);
    const Sample sample = sampleOf(kind, reduction, dtype, elements, groups, rng);
    auto from = randomOperands(static_cast<size_t>(replicas), dtype, elements, rng);
    const std::vector<Bytes> empty(from.size(), Bytes(static_cast<size_t>(sample.results * sizeOf(dtype))));
    std::vector<Bytes> want = empty, have = empty;
    sample.collective->run(pointers(from, 0, from.size()), pointers(want, 0, want.size()));
    Processes(*sample.collective, static_cast<size_t>(lanes), from, have).run();
    ASSERT_EQ(have, want) << sample.collective->describe() << ", " << processes << " processes of " << lanes
                          << " replicas, round " << round << ", seed " << seed;
    if (!sample.collective->worksInPlace()) continue;
    Processes(*sample.collective, static_cast<size_t>(lanes), from, from).run();
    ASSERT_EQ(from, want) << "in place: " << sample.collective->describe() << ", seed " << seed;
  }
}

int64_t sentBy(int32_t lanes, int32_t processes, int64_t elements, DType dtype) {
  std::mt19937 rng(1);
  const ReplicaGroups groups = groupsOf(lanes * processes, lanes * processes, 0, rng);
  const auto sum = kernels::makeAllReduce({CollectiveReduction::kAdd, dtype, elements, groups});
  auto from = randomOperands(static_cast<size_t>(lanes * processes), dtype, elements, rng);
  return Processes(*sum, static_cast<size_t>(lanes), from, from).mostSent();
}

TEST(ExchangePlan, AnAllReduceSendsAtMostTwiceTheOperand) {
  constexpr int64_t kElements = 64'000, kBytes = kElements * 4;
  for (const int32_t processes : {2, 4, 8}) {
    const int64_t once = kBytes / processes * (processes - 1);
    EXPECT_EQ(sentBy(1, processes, kElements, DType::kFloat32), 2 * once);
    // Four replicas of a process are reduced before; those of float16 would be rounded.
    EXPECT_EQ(sentBy(4, processes, kElements, DType::kFloat32), 2 * once);
    EXPECT_EQ(sentBy(4, processes, kElements, DType::kFloat16), (4 * once + once) / 2);
  }
}

TEST(ExchangePlan, GroupsWithinProcessesSendNothing) {
  for (int kind = 0; kind < 4; ++kind) {
    std::mt19937 rng(1);
    const Sample sample =
        sampleOf(kind, CollectiveReduction::kAdd, DType::kFloat32, 1000, {{0, 1}, {2, 3}}, rng);
    auto from = randomOperands(4, DType::kFloat32, 1000, rng);
    std::vector<Bytes> to(4, Bytes(static_cast<size_t>(sample.results) * 4));
    Processes processes(*sample.collective, 2, from, to);
    EXPECT_EQ(processes.mostSent(), 0) << sample.collective->describe();
  }
}

}  // namespace
}  // namespace popxl::exec
