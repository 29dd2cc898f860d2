#include "ops/define.h"

// Ops that say where a value is to be: on one machine they keep it as it is.
namespace popxl::ops {

void placement(Defs& defs) {
  OpDef copy;
  copy.name = "ipu_copy";
  copy.type = "IpuCopy";
  copy.doc = "The same values on another device of the program.";
  copy.operands = {{"t", ir::kAny}};
  copy.attrs = {{"destination", AttrType::kInt, "The device of the result."},
                {"source", AttrType::kInt, "The device of the operand."}};
  copy.infer = sameType;
  copy.visibility = Visibility::kManual;
  copy.view = [](const Op&, const Layout& input, ir::View& out) {
    out.layout = input;
    return true;
  };
  copy.grad = [](GradContext& c) {
    c.set(0, c.make("ipu_copy", {c.outGrad()}, {c.op.attrValue("source"), c.op.attrValue("destination")}));
  };
  defs.push_back(copy);

  OpDef io = copy;
  io.name = "io_tile_copy";
  io.type = "IoTileCopy";
  io.doc = "The same values on the other set of tiles.";
  io.attrs = {};
  io.grad = [](GradContext& c) { c.set(0, c.make("io_tile_copy", {c.outGrad()})); };
  defs.push_back(io);

  OpDef code;
  code.name = "remote_code_load";
  code.type = "RemoteCodeLoad";
  code.doc =
      "Says that the code of a graph is needed from here on; all code is in memory, so nothing is done.";
  code.attrs = {
      {"graph", AttrType::kString, "Name of the graph."},
      {"destination", AttrType::kString, "Where its code is to be: \"executable\".", textAttr("executable")}};
  code.results = {};
  code.infer = [](const Op&, Types&) {};
  code.visibility = Visibility::kManual;
  code.sideEffect = true;
  code.structure = Structure::kNothing;
  defs.push_back(code);
}

}  // namespace popxl::ops
