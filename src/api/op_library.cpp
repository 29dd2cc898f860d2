#include <dlfcn.h>

#include <map>
#include <mutex>

#include "api/custom_def.h"
#include "base/error.h"

namespace popxl {

const void* thisLibrary() {
  static const int here = 0;
  return &here;
}

namespace {

using AbiFn = int (*)();
using OpsFn = void (*)(OpLibrary&);

template <typename Function>
Function symbol(void* library, const char* name, const std::string& path) {
  auto* found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr)
    fail(ErrorKind::kValue, "{} is no library of ops: it has no POPXL_OPS(...) {{ ... }}", path);
  return found;
}

void* open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(ErrorKind::kValue, "can't load ops: {}", dlerror());
  return library;
}

std::vector<std::string> registerFrom(void* library, const std::string& path) {
  const int abi = symbol<AbiFn>(library, "popxlOpsAbi", path)();
  if (abi != kOpsAbi) {
    fail(ErrorKind::kValue,
         "{} was built against version {} of the interface of ops, this is version {}; build it anew against "
         "the "
         "headers of this installation",
         path, abi, kOpsAbi);
  }
  OpLibrary ops;
  symbol<OpsFn>(library, "popxlOps", path)(ops);
  if (ops.library != thisLibrary()) {
    fail(ErrorKind::kValue,
         "{} is linked to another copy of libpopxl than the one that loads it; link it to that", path);
  }
  std::vector<std::string> names;
  for (const CustomOp& op : ops.ops) names.push_back(op.name);
  api::registerOps(std::move(ops.ops));
  return names;
}

}  // namespace

std::vector<std::string> loadOps(const std::string& path) {
  static std::mutex mutex;
  static std::map<void*, std::vector<std::string>> loaded;  // libraries stay for the life of the process
  const std::lock_guard<std::mutex> lock(mutex);
  void* library = open(path);
  if (const auto known = loaded.find(library); known != loaded.end()) return known->second;
  return loaded.emplace(library, registerFrom(library, path)).first->second;
}

}  // namespace popxl
