#include "ir/ir.h"
#include "ops/define.h"

// Traffic with remote buffers, which the executor runs itself.
namespace popxl::ops {

namespace {

/// Checks that operand `t` of a load or store is one entry of the op's buffer and `offset` one integer.
void checkEntry(const Op& op) {
  const int64_t id = op.attr<int64_t>("remote_buffer");
  const ir::RemoteBuffer* buffer = op.graph().ir().findRemoteBuffer(id);
  if (buffer == nullptr) fail(ErrorKind::kValue, "there is no remote buffer {} in this Ir", id);
  const TensorType& t = typeOf(op, 0);
  if (t.dtype != buffer->type.dtype || t.shape != buffer->type.shape) {
    fail(ErrorKind::kValue, "{} must have the type of an entry of remote buffer {}, {}", describe(op, 0), id,
         buffer->type.str());
  }
  if (typeOf(op, 1).numElements() != 1) {
    fail(ErrorKind::kValue, "{} must be one integer: the entry of the remote buffer", describe(op, 1));
  }
}

const ir::AttrDef kBuffer = {"remote_buffer", AttrType::kInt, "Number of the remote buffer."};

OpDef remoteLoad() {
  OpDef def;
  def.name = "remote_load";
  def.type = "RemoteLoad";
  def.doc = "An entry of a remote buffer, in the place of a tensor made for it.";
  def.operands = {{"t", ir::kAny, "Gives type and place of the result; its content is not read."},
                  {"offset", ir::kInts, "The entry, one integer."}};
  def.attrs = {kBuffer};
  def.infer = [](const Op& op, Types& out) {
    checkEntry(op);
    sameType(op, out);
  };
  def.stopsGradient = true;
  def.visibility = Visibility::kManual;
  def.inplaceOperand = 0;
  def.sideEffect = true;
  def.structure = Structure::kRemoteLoad;
  return def;
}

OpDef remoteStore() {
  OpDef def;
  def.name = "remote_store";
  def.type = "RemoteStore";
  def.doc = "Makes a tensor an entry of a remote buffer.";
  def.operands = {{"t", ir::kAny, "The value."}, {"offset", ir::kInts, "The entry, one integer."}};
  def.attrs = {kBuffer};
  def.results = {};
  def.infer = [](const Op& op, Types&) { checkEntry(op); };
  def.visibility = Visibility::kManual;
  def.sideEffect = true;
  def.structure = Structure::kRemoteStore;
  return def;
}

}  // namespace

void remote(Defs& defs) {
  defs.push_back(remoteLoad());
  defs.push_back(remoteStore());
}

}  // namespace popxl::ops
