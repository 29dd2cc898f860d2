#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result_store.h"
#include "exec/executable_file.h"
#include "ir/ir.h"

namespace popxl::exec {

/// The files `<digest of the program>.popef` of one folder, as one compilation uses them. Nothing that a file
/// has or lacks changes what a program computes: results are found by what they were computed from. Files
/// that are of no use are ignored; where the folder can't be written there is one warning.
class ExecutableCache {
 public:
  /// Null unless the program's options ask for a cache. Error(kValue) for a limit in POPXL_CACHE_BYTES that
  /// is no number.
  static std::unique_ptr<ExecutableCache> open(const ir::Ir& ir);

  /// What the compilation finds results in and adds them to.
  ResultStore& results() { return results_; }
  /// Offers the results in the program's own file and returns true; if there is none, those in files of
  /// programs that have a graph in common with it.
  bool load();
  /// Writes the program's file where it is missing or lacks results, and removes files that were not used for
  /// longest while the folder has more bytes than its limit.
  void save();

  const std::filesystem::path& path() const { return path_; }

 private:
  ExecutableCache(const ir::Ir& ir, const Digest& build, int64_t limit);
  std::optional<Executable> contentOf(const std::string& bytes, const std::filesystem::path& path,
                                      bool whole) const;
  bool sharesGraph(const Executable& other) const;
  void offer(Executable&& executable);
  void loadRelated(bool all);

  Digest build_;
  int64_t limit_;  // bytes
  Executable own_;
  std::filesystem::path folder_, path_;
  ResultStore results_;
  bool loaded_ = false;
};

}  // namespace popxl::exec
