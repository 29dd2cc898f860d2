#include "dist/cluster.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/error.h"

namespace popxl::dist {
namespace {

std::atomic<bool> started{false};
pid_t startedBy = 0;
thread_local Cluster* ofThread = nullptr;

constexpr const char* kLibrary = "libpopxl_mpi.so";

/// The folder of the library that this code is in, with a slash.
std::string ownFolder() {
  static const char here = 0;
  Dl_info info;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

Cluster& start() {
  // Open MPI finds its own components through symbols that are visible to all.
  void* library = dlopen((ownFolder() + kLibrary).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    fail(ErrorKind::kRuntime,
         "a run over several processes needs MPI, which can't be loaded: {}; install Open MPI and build with "
         "it, or use a number of replicas in one process",
         dlerror());
  }
  using Start = Cluster* (*)(const char** problem);
  const auto startMpi = reinterpret_cast<Start>(dlsym(library, "popxlStartMpi"));
  const char* problem = "it is of another version";
  Cluster* made = startMpi == nullptr ? nullptr : startMpi(&problem);
  if (made == nullptr) fail(ErrorKind::kRuntime, "MPI can't be started: {}", problem);
  startedBy = ::getpid();
  started = true;
  return *made;
}

}  // namespace

ClusterScope::ClusterScope(Cluster& cluster) : before_(std::exchange(ofThread, &cluster)) {}
ClusterScope::~ClusterScope() { ofThread = before_; }

Cluster& cluster() {
  if (ofThread != nullptr) return *ofThread;
  static Cluster& only = start();
  if (::getpid() != startedBy) {
    fail(
        ErrorKind::kRuntime,
        "this process was forked from instance {} of {}, and is none itself; run what needs the others there",
        only.index(), only.size());
  }
  return only;
}

bool inCluster() { return started; }

}  // namespace popxl::dist
