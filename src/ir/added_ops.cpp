#include "ir/added_ops.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "base/error.h"

namespace popxl::ir {
namespace {

class AddedOps {
 public:
  const AddedOp* find(std::string_view name) const {
    if (empty_.load(std::memory_order_acquire)) return nullptr;
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto it = byName_.find(name);
    return it == byName_.end() ? nullptr : it->second;
  }

  void add(const OpTable& table, std::vector<AddedOp> ops) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    const auto isTaken = [&](std::string_view name) {
      const auto same = [&](const AddedOp& op) { return op.def.name == name; };
      const bool builtIn = std::any_of(table.all().begin(), table.all().end(),
                                       [&](const OpDef& def) { return def.name == name; });
      return builtIn || byName_.contains(name) || std::count_if(ops.begin(), ops.end(), same) > 1;
    };
    for (const AddedOp& op : ops) {
      if (!isTaken(op.def.name)) continue;
      fail(ErrorKind::kValue, "there is an op `{}` already; give yours another name", op.def.name);
    }
    for (AddedOp& op : ops) {
      const AddedOp& kept = ops_.emplace_back(std::move(op));
      byName_.emplace(kept.def.name, &kept);
    }
    empty_.store(ops_.empty(), std::memory_order_release);
  }

  std::vector<const OpDef*> all() const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    std::vector<const OpDef*> out;
    for (const AddedOp& op : ops_) out.push_back(&op.def);
    return out;
  }

 private:
  std::atomic<bool> empty_{true};
  mutable std::shared_mutex mutex_;
  std::deque<AddedOp> ops_;  // they stay where they are
  std::map<std::string, const AddedOp*, std::less<>> byName_;
};

/// Never destroyed: their functions may belong to a library or an interpreter that is gone by then.
AddedOps& added() {
  static auto& ops = *new AddedOps();
  return ops;
}

}  // namespace

void addOps(const OpTable& table, std::vector<AddedOp> ops) { added().add(table, std::move(ops)); }

const OpDef* findAdded(std::string_view name) {
  const AddedOp* op = added().find(name);
  return op == nullptr ? nullptr : &op->def;
}

const AddedOp* addedOp(const OpDef& def) {
  const AddedOp* op = added().find(def.name);
  return op != nullptr && &op->def == &def ? op : nullptr;
}

std::vector<const OpDef*> addedOps() { return added().all(); }

}  // namespace popxl::ir
