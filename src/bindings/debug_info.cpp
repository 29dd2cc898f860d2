#include "bindings/debug_info.h"

#include <map>

#include "bindings/convert.h"
#include "bindings/module.h"

namespace popxl::bindings {
namespace {

struct Entry {
  std::string category, api;
  std::vector<std::string> inputs, outputs;
  ir::Loc loc;
};

std::vector<Entry>& entries() {
  static std::vector<Entry> recorded;
  return recorded;
}

std::vector<std::string> idsOf(const std::vector<ir::Tensor*>& tensors) {
  std::vector<std::string> ids;
  for (const ir::Tensor* t : tensors) {
    if (t != nullptr) ids.push_back(t->id());
  }
  return ids;
}

/// Strings of the record, each once, by index.
class Strings {
 public:
  size_t index(const std::string& text) {
    const auto [at, fresh] = indices_.try_emplace(text, indices_.size());
    if (fresh) list_.append(text);
    return at->second;
  }
  const nb::list& list() const { return list_; }

 private:
  std::map<std::string, size_t> indices_;
  nb::list list_;
};

nb::dict describe(const Entry& entry, size_t id, Strings& strings) {
  nb::dict out;
  out["id"] = id;
  out["layer"] = "popxl";
  out["category"] = entry.category;
  if (!entry.api.empty()) out["api"] = entry.api;
  if (entry.category == "op") out["inputs"] = entry.inputs;
  if (!entry.outputs.empty()) out["outputs"] = entry.outputs;
  if (entry.loc.known()) {
    nb::dict location;
    location["fileName"] = strings.index(*entry.loc.file);
    location["functionName"] = strings.index(entry.loc.function == nullptr ? "" : *entry.loc.function);
    location["lineNumber"] = entry.loc.line;
    out["location"] = location;
  }
  return out;
}

nb::tuple stop() {
  DebugInfo::stop();
  Strings strings;
  nb::list contexts;
  for (size_t i = 0; i < entries().size(); ++i) contexts.append(describe(entries()[i], i, strings));
  entries().clear();
  return nb::make_tuple(contexts, strings.list());
}

}  // namespace

void DebugInfo::start() {
  entries().clear();
  active_ = true;
}

void DebugInfo::recordIr(const ir::Ir&) { entries().push_back({"ir", "", {}, {}, userLocation()}); }

void DebugInfo::recordTensor(const ir::Tensor& made) {
  entries().push_back({"tensor", "", {}, {made.id()}, made.loc()});
}

void DebugInfo::recordOp(const ir::Op& made) {
  entries().push_back({"op", made.name(), idsOf(made.inputs()), idsOf(made.outputs()), made.loc()});
  for (const ir::Tensor* t : made.outputs()) recordTensor(*t);
}

void bindDebugInfo(nb::module_& m) {
  m.def(
      "start_debug_info", [] { DebugInfo::start(); }, "Starts a record of what programs make.");
  m.def("stop_debug_info", &stop, "Ends the record; returns its contexts and the table of their strings.");
}

}  // namespace popxl::bindings
