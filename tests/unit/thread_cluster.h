#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "base/error.h"
#include "dist/cluster.h"

namespace popxl::testing {

/// Threads that take the part of processes.
class ThreadCluster {
 public:
  explicit ThreadCluster(int32_t size) : size_(size) {}

  /// Calls `work(i)` for each process, side by side. Throws the first error.
  void run(const std::function<void(int32_t)>& work) {
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < size_; ++i) {
      threads.emplace_back([this, i, &work] {
        Member member(*this, i);
        const dist::ClusterScope scope(member);
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (error_ == nullptr) error_ = std::current_exception();
          changed_.notify_all();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  using Bytes = std::vector<std::byte>;

  class Member final : public dist::Cluster {
   public:
    Member(ThreadCluster& all, int32_t index) : all_(all), index_(index) {}
    int32_t size() const override { return all_.size_; }
    int32_t index() const override { return index_; }
    void setActivity(const char*) override {}
    void leave() override {}

    void allGather(const void* mine, int64_t bytes, void* all) override {
      std::vector<dist::Message> sends, receives;
      auto* own = static_cast<std::byte*>(const_cast<void*>(mine));
      for (int32_t i = 0; i < size(); ++i) {
        sends.push_back({i, own, bytes});
        receives.push_back({i, static_cast<std::byte*>(all) + i * bytes, bytes});
      }
      exchange(sends, receives);
    }

    void exchange(std::span<const dist::Message> sends, std::span<const dist::Message> receives) override {
      std::unique_lock lock(all_.mutex_);
      for (const dist::Message& m : sends) all_.wires_[{index_, m.peer}].emplace(m.at, m.at + m.bytes);
      all_.changed_.notify_all();
      for (const dist::Message& m : receives) {
        std::queue<Bytes>& wire = all_.wires_[{m.peer, index_}];
        all_.changed_.wait(lock, [&] { return !wire.empty() || all_.error_ != nullptr; });
        if (wire.empty()) fail(ErrorKind::kDevice, "another process failed");
        POPXL_ASSERT(wire.front().size() == static_cast<size_t>(m.bytes), "{} bytes came, {} are awaited",
                     wire.front().size(), m.bytes);
        if (m.bytes > 0) std::memcpy(m.at, wire.front().data(), wire.front().size());
        wire.pop();
      }
    }

   private:
    ThreadCluster& all_;
    int32_t index_;
  };

  int32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int32_t, int32_t>, std::queue<Bytes>> wires_;  // sender, receiver
  std::exception_ptr error_;
};

}  // namespace popxl::testing
