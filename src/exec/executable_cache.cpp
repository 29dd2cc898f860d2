#include "exec/executable_cache.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include "analysis/fingerprint.h"
#include "base/error.h"
#include "base/logging.h"
#include "exec/cache_folder.h"
#include "ir/print.h"
#include "kernels/jit.h"

namespace popxl::exec {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kDefaultLimit = int64_t{1} << 30;
constexpr size_t kMostSearched = 32;  // files of other programs

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t limitFromEnvironment() {
  const std::string_view text = environment("POPXL_CACHE_BYTES");
  if (text.empty()) return kDefaultLimit;
  int64_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size() || limit < 0) {
    fail(
        ErrorKind::kValue,
        "POPXL_CACHE_BYTES is `{}`; give the number of bytes that the executable cache may take, or unset it",
        text);
  }
  return limit;
}

/// The options without those that no compilation depends on.
ir::SessionOptions optionsThatCount(ir::SessionOptions options) {
  const ir::SessionOptions defaults;
  options.enableEngineCaching = defaults.enableEngineCaching;
  options.cachePath = defaults.cachePath;
  options.dotChecks = defaults.dotChecks;
  options.logDir = defaults.logDir;
  options.globalReplicaOffset = defaults.globalReplicaOffset;  // instances of one program share a file
  return options;
}

Digest digestOf(const ir::Ir& ir, std::span<const Digest> graphs, const Digest& build) {
  Sha256 digest;
  digest.add(build);
  const auto isa = kernels::jit::chosenIsa();
  digest.add(fmt::format("isa {}\noptions {}\nwithout {}\nreplicas {}\n", isa ? static_cast<int>(*isa) : -1,
                         ir::print(optionsThatCount(ir.options())), environment("POPXL_DISABLE_PASSES"),
                         ir.instanceReplicationFactor()));
  for (const Digest& graph : graphs) digest.add(graph);
  return digest.finish();
}

/// One warning for each folder.
void warnOnce(const fs::path& folder, std::string_view what) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!warned.insert(folder.string()).second) return;
  log().warn(
      "{}; programs are compiled without a cache. Name a folder for it with the option `cachePath` or the "
      "environment variable POPXL_CACHE_DIR",
      what);
}

}  // namespace

std::unique_ptr<ExecutableCache> ExecutableCache::open(const ir::Ir& ir) {
  if (!ir.options().enableEngineCaching) return nullptr;
  const int64_t limit = limitFromEnvironment();
  if (ir.options().cachePath.empty()) {
    warnOnce("",
             "The executable cache has no folder: `enableEngineCaching` is set, and `cachePath` is empty");
    return nullptr;
  }
  const std::optional<Digest> build = buildId();
  if (!build) {
    log().debug("There is no executable cache: the library has no build id");
    return nullptr;
  }
  return std::unique_ptr<ExecutableCache>(new ExecutableCache(ir, *build, limit));
}

ExecutableCache::ExecutableCache(const ir::Ir& ir, const Digest& build, int64_t limit)
    : build_(build), limit_(limit), folder_(ir.options().cachePath) {
  for (const ir::Graph* graph : ir.graphs()) own_.graphs.push_back(analysis::fingerprint(*graph));
  own_.ir = digestOf(ir, own_.graphs, build);
  path_ = folder_ / (hex(own_.ir) + std::string(kCacheFileEnding));
}

/// What the bytes of a file are, without the results unless `whole`; nothing where they are of no use.
std::optional<Executable> ExecutableCache::contentOf(const std::string& bytes, const fs::path& path,
                                                     bool whole) const {
  FileFault fault{};
  std::optional<Executable> executable = (whole ? decode : peek)(bytes, build_, fault);
  if (!executable) {
    log().info("Ignoring cache file because it does not contain {}: {}", describe(fault), path.string());
  } else if (whole) {
    log().debug("PopEF file inferred to have hash {}: {}", hex(executable->ir), path.string());
  }
  return executable;
}

bool ExecutableCache::sharesGraph(const Executable& other) const {
  return std::any_of(own_.graphs.begin(), own_.graphs.end(), [&](const Digest& graph) {
    return std::find(other.graphs.begin(), other.graphs.end(), graph) != other.graphs.end();
  });
}

void ExecutableCache::offer(Executable&& executable) {
  for (auto& [key, result] : executable.results) results_.offer(key, std::move(result));
}

/// Offers the results of programs that share a graph, or of all.
void ExecutableCache::loadRelated(bool all) {
  std::vector<fs::path> files = cacheFiles(folder_);
  if (files.size() > kMostSearched) files.resize(kMostSearched);
  for (const fs::path& path : files) {
    if (path == path_ && !all) continue;
    if (all) log().info("Performing preload of popef file {}", path.string());
    const std::optional<std::string> bytes = readFile(path, limit_);
    const auto digests = bytes ? contentOf(*bytes, path, false) : std::nullopt;
    if (!digests || (!all && !sharesGraph(*digests))) continue;
    if (std::optional<Executable> executable = contentOf(*bytes, path, true)) {
      offer(std::move(*executable));
      if (all) log().info("Completed preload of popef file {}", path.string());
    }
  }
}

bool ExecutableCache::load() {
  if (!environment("POPART_PRELOAD_POPEF").empty()) loadRelated(true);
  const std::optional<std::string> bytes = readFile(path_, limit_);
  std::optional<Executable> executable = bytes ? contentOf(*bytes, path_, true) : std::nullopt;
  if (executable && executable->ir != own_.ir) {
    log().info("Cache file hash did not match the IR hash {}: {}", hex(own_.ir), path_.string());
    executable.reset();
  }
  loaded_ = executable.has_value();
  if (loaded_) {
    log().info("Loading serialized PopART executable from {}", path_.string());
    offer(std::move(*executable));
  } else {
    loadRelated(false);
  }
  return loaded_;
}

void ExecutableCache::save() {
  log().debug("Executable cache: {} results of the compilation were there, {} are new", results_.found(),
              results_.added());
  if (loaded_ && results_.added() == 0) return touch(path_);
  own_.results.clear();
  results_.forUsed(
      [&](const Digest& key, std::string_view result) { own_.results.emplace_back(key, result); });
  const std::string bytes = encode(own_, build_);
  if (static_cast<int64_t>(bytes.size()) > limit_) return;
  if (const std::string what = writeFile(path_, bytes); !what.empty()) {
    return warnOnce(folder_,
                    fmt::format("The executable cache in {} can't be written ({})", folder_.string(), what));
  }
  cleanFolder(folder_, path_, limit_);
}

}  // namespace popxl::exec
