#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/sha256.h"

namespace popxl {

/// Results of pure functions by the digest of what they were computed from, so that a result can be taken
/// from an earlier compilation, whatever program it was for. For one thread.
class ResultStore {
 public:
  /// The store that this thread's compilation uses; null where it uses none.
  static ResultStore* current();

  /// Makes a store (or null) the current one while it lives.
  class Use {
   public:
    explicit Use(ResultStore* store);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ResultStore* before_;
  };

  /// What is known of earlier.
  void offer(const Digest& key, std::string result) { known_.try_emplace(key, Entry{std::move(result)}); }
  /// An offered result, or nothing.
  std::optional<std::string_view> find(const Digest& key);
  /// A result that was computed now.
  void add(const Digest& key, std::string result);

  /// Calls `visit(key, result)` for all results that were found or added, in the order of their keys.
  template <class Visit>
  void forUsed(const Visit& visit) const {
    for (const Digest& key : usedKeys()) visit(key, std::string_view(known_.at(key).result));
  }
  int64_t found() const { return found_; }
  int64_t added() const { return added_; }

 private:
  struct Entry {
    std::string result;
    bool used = false;
  };
  std::vector<Digest> usedKeys() const;

  std::unordered_map<Digest, Entry, DigestHash> known_;
  int64_t found_ = 0, added_ = 0;
};

}  // namespace popxl
