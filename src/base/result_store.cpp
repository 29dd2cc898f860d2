#include "base/result_store.h"

#include <algorithm>

namespace popxl {
namespace {

thread_local ResultStore* store = nullptr;

}  // namespace

ResultStore* ResultStore::current() { return store; }

ResultStore::Use::Use(ResultStore* used) : before_(store) { store = used; }
ResultStore::Use::~Use() { store = before_; }

std::optional<std::string_view> ResultStore::find(const Digest& key) {
  const auto it = known_.find(key);
  if (it == known_.end()) return std::nullopt;
  it->second.used = true;
  ++found_;
  return it->second.result;
}

void ResultStore::add(const Digest& key, std::string result) {
  known_.insert_or_assign(key, Entry{std::move(result), true});
  ++added_;
}

std::vector<Digest> ResultStore::usedKeys() const {
  std::vector<Digest> keys;
  for (const auto& [key, entry] : known_) {
    if (entry.used) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace popxl
