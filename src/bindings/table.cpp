#include "bindings/convert.h"
#include "bindings/custom_ops.h"
#include "bindings/module.h"
#include "ir/added_ops.h"
#include "ops/ops.h"

namespace popxl::bindings {
namespace {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

/// Class name to op type, of every op and of its in-place use.
nb::dict opClasses() {
  nb::dict out;
  const auto add = [&](const ir::OpDef& def) {
    const std::string type(def.type);
    const std::string name = def.className.empty() ? type + "Op" : std::string(def.className);
    out[text(name)] = text(type);
    if (def.inplaceOperand < 0 || def.alwaysInplace) return;
    const std::string inplace = def.inplaceType.empty() ? type + "Inplace" : std::string(def.inplaceType);
    out[text(inplace + "Op")] = text(inplace);
  };
  for (const ir::OpDef& def : ops::table().all()) add(def);
  for (const ir::OpDef* def : ir::addedOps()) add(*def);
  return out;
}

nb::list opNames() {
  nb::list out;
  for (const ir::OpDef& def : ops::table().all()) out.append(text(def.name));
  return out;
}

}  // namespace

void bindTable(nb::module_& m) {
  bindCustomOps(m);
  m.def("op_classes", &opClasses, "Compatibility class names, each with the op type it stands for.");
  m.def("op_names", &opNames, "Names of all ops that the library has of itself.");
}

}  // namespace popxl::bindings
