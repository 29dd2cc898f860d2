#include "exec/remote_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "compile/compile.h"
#include "exec/pool.h"
#include "ir_testing.h"
#include "popxl/error.h"

namespace popxl::exec {
namespace {

constexpr int64_t kLanes = 3;

/// Two buffers of entries of different size, and a folder that goes with the test.
class RemoteCacheTest : public ::testing::Test {
 protected:
  RemoteCacheTest()
      : layout_(*compile::prepare(*testing::parsed(R"(ir {
          remote_buffer 1 : float32 (300,) entries(7)
          remote_buffer 2 : float32 (5000,) entries(4)
          graph @main { }
        })")),
                kLanes),
        values_(static_cast<size_t>(layout_.numEntries()), 0.0f) {
    std::filesystem::remove_all(folder_);
  }
  ~RemoteCacheTest() override { std::filesystem::remove_all(folder_); }

  size_t sizeOf(int64_t number) const {
    return static_cast<size_t>(layout_.bufferOf(number).bytes) / sizeof(float);
  }

  void expectValue(RemoteStore& store, int64_t number) const {
    std::vector<float> got(sizeOf(number));
    store.load(number, reinterpret_cast<std::byte*>(got.data()), layout_.bufferOf(number).bytes);
    EXPECT_EQ(got, std::vector<float>(got.size(), values_[static_cast<size_t>(number)])) << number;
  }
  void add(RemoteStore& store, int64_t number, float what) {
    float& value = values_[static_cast<size_t>(number)];
    value += what;
    const std::vector<float> all(sizeOf(number), value);
    store.store(number, reinterpret_cast<const std::byte*>(all.data()), layout_.bufferOf(number).bytes);
  }
  /// What a lane does in a run: the same entries in every run but those of chance.
  void work(RemoteStore& store, int64_t lane, uint32_t seed) {
    std::mt19937 random(seed);
    for (const RemoteLayout::Buffer& b : layout_.buffers) {
      for (int64_t i = 0; i < b.entries; ++i) {
        const int64_t at = i == 2 ? static_cast<int64_t>(random() % 4) : i;
        const int64_t number = layout_.numberOf(b, lane, at);
        expectValue(store, number);
        add(store, number, static_cast<float>(lane + 1));
        if (i % 2 == 0) add(store, number, 1);
      }
    }
  }
  void run(RemoteStore& store, uint32_t seed) {
    store.beginRun();
    std::vector<std::thread> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes.emplace_back([&, lane] { work(store, lane, seed + static_cast<uint32_t>(lane)); });
    }
    for (std::thread& lane : lanes) lane.join();
  }

  const std::string folder_ =
      std::filesystem::path(::testing::TempDir()) / ("popxl_remote_cache_test." + std::to_string(::getpid()));
  const RemoteLayout layout_;
  std::vector<float> values_;  // that entries are full of
};

TEST_F(RemoteCacheTest, HoldsWhatReplicasStoreAtOnceWithAnyRoom) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  for (const int64_t room : {0, 1300, 30000, 70000, 1 << 20}) {
    for (uint32_t session = 0; session < 3; ++session) {
      RemoteCache store(layout_, 0, {folder_, room, session == 1});
      for (uint32_t i = 0; i < 6; ++i) {
        run(store, seed + 7 * i);
        const std::vector<float> before = values_;
        store.commit();
        if (i % 3 != 2) continue;
        run(store, seed);
        store.rollBack();
        values_ = before;
      }
      EXPECT_LE(store.touchedBytes(), room);
      for (int64_t n = 0; n < layout_.numEntries(); ++n) expectValue(store, n);
    }
  }
}

TEST_F(RemoteCacheTest, WhatIsNotCommittedIsNotThereAgain) {
  {
    RemoteCache store(layout_, 0, {folder_, 30000, false});
    run(store, 1);
    store.commit();
    const std::vector<float> before = values_;
    run(store, 2);
    values_ = before;
  }
  RemoteCache store(layout_, 0, {folder_, 30000, false});
  for (int64_t n = 0; n < layout_.numEntries(); ++n) expectValue(store, n);
}

/// Lets writes beyond so many bytes of any file fail, as a disk may.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(RemoteCacheTest, ACommitIsUndoneWholeThoughThatStopsHalfWay) {
  {
    RemoteCache store(layout_, 0, {folder_, 0, false});
    run(store, 1);
    store.commit();
    const std::vector<float> before = values_;
    run(store, 2);
    store.commit();
    values_ = before;
  }
  {
    RemoteCache store(layout_, 0, {folder_, 0, false});
    EXPECT_EQ(store.commits(), 2);
    constexpr rlim_t kRecordsAt = 4 * 4096, kRecordBytes = 32;
    const FileSizeLimit limit(kRecordsAt + 2 * 5 * kRecordBytes);  // those of five entries
    EXPECT_THROW(store.undoCommit(), Error);
  }
  RemoteCache store(layout_, 0, {folder_, 0, false});
  EXPECT_EQ(store.commits(), 1);
  for (int64_t n = 0; n < layout_.numEntries(); ++n) expectValue(store, n);
}

TEST(AccessPlan, KnowsTheNextUseInThisRunAndTheNext) {
  AccessPlan plan;
  for (const int64_t entry : {5, 6, 5, 7}) plan.note(entry, entry == 5);
  plan.begin();
  EXPECT_EQ(plan.nextUse(5), 0);
  EXPECT_TRUE(plan.note(5, true));
  EXPECT_EQ(plan.nextUse(5), 2);
  EXPECT_EQ(plan.now(), 1);
  EXPECT_FALSE(plan.note(5, true));  // before 6, as another replica may
  EXPECT_EQ(plan.nextUse(5), 4);     // the first use of the next run
  EXPECT_EQ(plan.now(), 1);
  EXPECT_FALSE(plan.note(9, false));  // not planned
  EXPECT_EQ(plan.nextUse(9), AccessPlan::kNever);
  plan.note(6, false);
  EXPECT_EQ(plan.now(), 3);
  plan.forget();
  plan.begin();
  EXPECT_EQ(plan.uses().size(), 4U);
  EXPECT_EQ(plan.now(), 0);
}

TEST(Pool, LendsPiecesUntilNoneIsLargeEnough) {
  Pool pool(1024);
  std::byte* const a = pool.take(500);
  std::byte* const b = pool.take(256);
  EXPECT_EQ(b - a, 512);
  EXPECT_EQ(pool.take(300), nullptr);
  pool.giveBack(a, 500);
  EXPECT_EQ(pool.take(513), nullptr);
  pool.giveBack(b, 256);
  EXPECT_EQ(pool.take(1024), a);
  EXPECT_EQ(Pool(0).take(1), nullptr);
}

}  // namespace
}  // namespace popxl::exec
