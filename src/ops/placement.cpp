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
}

}  // namespace popxl::ops
