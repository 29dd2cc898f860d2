#pragma once

#include <functional>
#include <vector>

namespace popxl::passes {

/// What a transform has changed so far; taken back in reverse order unless it is kept.
class Changes {
 public:
  ~Changes() {
    for (size_t i = undo_.size(); i-- > 0;) undo_[i]();
  }
  void add(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  void keep() { undo_.clear(); }

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace popxl::passes
