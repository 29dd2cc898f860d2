#include "passes/pass_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/logging.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace popxl::passes {

#define POPXL_PASS(function, name, doc) bool function(ir::Ir& ir);
#include "passes/passes.def"
#undef POPXL_PASS

namespace {

/// Whether `name`, or "all", is among the names that an environment variable lists.
bool listed(const char* variable, std::string_view name) {
  const char* value = std::getenv(variable);
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (item == name || item == "all") return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

}  // namespace

std::span<const Pass> allPasses() {
  static constexpr std::array kPasses{
#define POPXL_PASS(function, name, doc) Pass{name, doc, function},
#include "passes/passes.def"
#undef POPXL_PASS
  };
  return kPasses;
}

const Pass& findPass(std::string_view name) {
  std::string names;
  for (const Pass& pass : allPasses()) {
    if (pass.name == name) return pass;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", pass.name);
  }
  fail(ErrorKind::kValue, "there is no pass `{}`; there are: {}", name, names);
}

namespace {

/// Everything that runPass does but verifying.
bool apply(const Pass& pass, ir::Ir& ir) {
  if (listed("POPXL_DISABLE_PASSES", pass.name)) {
    log().debug("pass {}: disabled", pass.name);
    return false;
  }
  const auto start = std::chrono::steady_clock::now();
  const bool changed = pass.run(ir);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  log().debug("pass {}: {:.3f} ms, {}", pass.name, time.count(),
              changed ? "changed the program" : "no change");
  if (changed && listed("POPXL_PRINT_AFTER", pass.name)) {
    const std::string text = fmt::format("// after {}\n{}", pass.name, ir::print(ir));
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  return changed;
}

void verifyAfter(std::string_view passes, const ir::Ir& ir) {
  try {
    ir::verify(ir);
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("after {}: {}", passes, error.what()));
  }
}

}  // namespace

bool runPass(const Pass& pass, ir::Ir& ir) {
  const bool changed = apply(pass, ir);
  if (changed) verifyAfter(fmt::format("pass {}", pass.name), ir);
  return changed;
}

bool runPass(std::string_view name, ir::Ir& ir) { return runPass(findPass(name), ir); }

void runPasses(std::span<const std::string_view> names, ir::Ir& ir) {
  std::string changing;
  for (const std::string_view name : names) {
    if (apply(findPass(name), ir)) changing += fmt::format("{}{}", changing.empty() ? "passes " : ", ", name);
  }
  if (!changing.empty()) verifyAfter(changing, ir);
}

}  // namespace popxl::passes
