#include "bindings/handles.h"
#include "bindings/module.h"
#include "exec/session.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/ops.h"

namespace popxl::bindings {

void bindText(nb::module_& m) {
  m.def(
      "to_text",
      [](const std::shared_ptr<ir::Ir>& program, bool locations, int64_t elideDataAbove) {
        return ir::print(*program, {locations, elideDataAbove});
      },
      nb::arg("ir"), nb::arg("locations") = true, nb::arg("elide_data_above") = INT64_MAX,
      "The text form of an Ir; it parses unless data was elided.");
  m.def(
      "graph_to_text",
      [](const GraphHandle& g, bool locations, int64_t elideDataAbove) {
        return ir::print(*g, {locations, elideDataAbove});
      },
      nb::arg("graph"), nb::arg("locations") = true, nb::arg("elide_data_above") = INT64_MAX,
      "One graph as it stands in the text of its Ir.");
  m.def(
      "from_text", [](const std::string& text) { return ir::parse(text, ops::table()); }, nb::arg("text"),
      "The Ir that a text describes. ValueError with line and column where it is none.");
  m.def(
      "program_text", [](const exec::Session& session) { return session.program().str(); },
      nb::arg("session"), "The compiled program, one instruction a line.");
}

}  // namespace popxl::bindings
