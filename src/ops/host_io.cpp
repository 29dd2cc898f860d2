#include "ir/ir.h"
#include "ops/define.h"

// Traffic with the host, which the executor runs itself.
namespace popxl::ops {

namespace {

const ir::Stream& streamOf(const Op& op, ir::StreamDirection direction) {
  const auto& id = op.attr<std::string>("stream");
  const ir::Stream* stream = op.graph().ir().findStream(id);
  if (stream == nullptr) fail(ErrorKind::kValue, "there is no stream `{}` in this Ir", id);
  if (stream->direction != direction) {
    fail(ErrorKind::kValue, "stream `{}` runs {}", id,
         direction == ir::StreamDirection::kHostToDevice
             ? "from the device to the host; a load needs the opposite"
             : "from the host to the device; a store needs the opposite");
  }
  const TensorType &have = typeOf(op, 0), &want = stream->tensor->type();
  if (have.dtype != want.dtype || have.shape != want.shape) {
    fail(ErrorKind::kValue, "{} must have the type of stream `{}`, {}", describe(op, 0), id, want.str());
  }
  return *stream;
}

void inferInit(const Op& op, Types& out) {
  const auto& kind = op.attr<std::string>("init_type");
  if (kind != "zero" && kind != "undef") {
    fail(ErrorKind::kValue, "`init_type` is \"{}\"; it must be \"zero\" or \"undef\"", kind);
  }
  for (int64_t size : ints(op, "shape")) {
    if (size < 0)
      fail(ErrorKind::kValue, "the shape {} has a negative dimension", toString(ints(op, "shape")));
  }
  out.push_back(
      {op.attr<DType>("dtype"), ints(op, "shape"), op.attrOr<std::vector<int64_t>>("meta_shape", {})});
}

OpDef init() {
  OpDef def;
  def.name = "init";
  def.type = "Init";
  def.doc = "A new tensor.";
  def.attrs = {{"shape", AttrType::kInts, "Shape of the tensor."},
               {"dtype", AttrType::kDType, "Its dtype."},
               {"init_type", AttrType::kString, "\"zero\", or \"undef\" for any content.", textAttr("zero")},
               {"meta_shape", AttrType::kInts, "For a shard: shape of the whole.", {}, true}};
  def.infer = inferInit;
  def.stopsGradient = true;
  def.visibility = Visibility::kManual;
  def.structure = Structure::kInit;
  return def;
}

OpDef hostLoad() {
  OpDef def;
  def.name = "host_load";
  def.type = "HostLoad";
  def.doc = "The next value of a stream from the host, in the place of a tensor made for it.";
  def.operands = {{"t", ir::kAny, "Gives type and place of the result; its content is not read."}};
  def.attrs = {{"stream", AttrType::kString, "Name of the stream."}};
  def.infer = [](const Op& op, Types& out) {
    streamOf(op, ir::StreamDirection::kHostToDevice);
    sameType(op, out);
  };
  def.stopsGradient = true;
  def.visibility = Visibility::kManual;
  def.sideEffect = true;
  def.structure = Structure::kHostLoad;
  return def;
}

OpDef hostStore() {
  OpDef def;
  def.name = "host_store";
  def.type = "HostStore";
  def.doc = "Hands the value of a tensor to a stream to the host.";
  def.operands = {{"t", ir::kAny}};
  def.attrs = {{"stream", AttrType::kString, "Name of the stream."}};
  def.results = {};
  def.infer = [](const Op& op, Types&) { streamOf(op, ir::StreamDirection::kDeviceToHost); };
  def.visibility = Visibility::kManual;
  def.sideEffect = true;
  def.structure = Structure::kHostStore;
  return def;
}

/// The gradient passes through a print of its own, which shows it where `print_gradient` asks for that.
void printRule(GradContext& c) {
  auto attrs = c.op.attrs();
  const auto at = [&](std::string_view name) -> Attr& {
    return attrs[static_cast<size_t>(c.op.def().attrIndex(name))];
  };
  at("title") = textAttr(c.op.attr<std::string>("title") + "_gradient");
  at("print_self") = at("print_gradient");
  c.set(0, c.make("print_tensor", {c.outGrad()}, attrs));
}

OpDef printTensor() {
  OpDef def;
  def.name = "print_tensor";
  def.type = "PrintTensor";
  def.doc = "Prints a tensor each time it is reached; the result is the same tensor.";
  def.operands = {{"t", ir::kAny}};
  def.attrs = {
      {"title", AttrType::kString, "Text before the values."},
      {"print_self", AttrType::kBool, "Whether to print the tensor.", Attr(true)},
      {"print_gradient", AttrType::kBool, "Whether to print its gradient.", Attr(false)},
      {"summarise_threshold", AttrType::kInt, "Size from which the middle of an axis is left out.",
       Attr(int64_t{1000})},
      {"edge_items", AttrType::kInt, "How many entries are left at both ends of a shortened axis.",
       Attr(int64_t{3})},
      {"max_line_width", AttrType::kInt, "Characters after which a line is broken.", Attr(int64_t{75})},
      {"digits", AttrType::kInt, "Digits after the decimal point.", Attr(int64_t{8})},
      {"float_format", AttrType::kString, "\"auto\", \"fixed\", \"scientific\" or \"none\".",
       textAttr("auto")},
      {"separator", AttrType::kString, "Between two entries.", textAttr(" ")},
      {"open_bracket", AttrType::kString, "Before the entries of an axis.", textAttr("[")},
      {"close_bracket", AttrType::kString, "After the entries of an axis.", textAttr("]")}};
  def.infer = sameType;
  def.grad = printRule;
  def.visibility = Visibility::kManual;
  def.sideEffect = true;
  def.structure = Structure::kPrint;
  return def;
}

}  // namespace

void hostIo(Defs& defs) {
  defs.push_back(init());
  defs.push_back(hostLoad());
  defs.push_back(hostStore());
  defs.push_back(printTensor());
}

}  // namespace popxl::ops
