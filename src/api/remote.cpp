#include "popxl/remote.h"

#include "api/make_op.h"
#include "base/error.h"
#include "base/shape.h"
#include "ops/ops.h"

namespace popxl {
namespace {

ir::RemoteBuffer& found(const RemoteBuffer& buffer) {
  ir::RemoteBuffer* own = buffer.ir()->findRemoteBuffer(buffer.id());
  POPXL_ASSERT(own != nullptr, "no remote buffer {}", buffer.id());
  return *own;
}

/// Error(kValue) unless the graph that is entered is of the buffer's Ir.
void checkIr(const RemoteBuffer& buffer) {
  if (&ir::Context::current().requireGraph().ir() != buffer.ir().get())
    fail(ErrorKind::kValue, "remote buffer {} belongs to another Ir", buffer.id());
}

/// The entry as a tensor of the graph that is entered. Error(kValue) before anything is made.
ir::Tensor* entryOf(const RemoteBuffer& buffer, const RemoteEntry& entry, std::source_location where) {
  checkIr(buffer);
  if (const auto* tensor = std::get_if<Tensor>(&entry)) return tensor->get();
  const auto number = std::get<int64_t>(entry);
  if (number < 0 || number > UINT32_MAX) {
    fail(ErrorKind::kValue, "there is no entry {} in a remote buffer; they lie in [0, 2^32)", number);
  }
  const auto value = static_cast<uint32_t>(number);
  const Tensor made = detail::addData(std::span<const uint32_t>(&value, 1), {}, "offset", false, where);
  made.get()->markImplicit();
  return made.get();
}

/// Adds a load or store of what `memory` returns.
template <typename Memory>
ir::Op* addAccess(const char* op, const RemoteBuffer& buffer, const RemoteEntry& entry, const Memory& memory,
                  bool inplace, std::source_location where, std::vector<std::string> names = {}) {
  ir::Tensor* const at = api::at(where, [&] { return entryOf(buffer, entry, where); });
  return ir::Context::current().addOp(ops::def(op), {memory(), at}, {buffer.id()}, ir::Loc::from(where),
                                      inplace, std::move(names));
}

}  // namespace

TensorSpec RemoteBuffer::spec() const { return {found(*this).type.shape, found(*this).type.dtype}; }
int64_t RemoteBuffer::entries() const { return found(*this).entries; }
void RemoteBuffer::setEntries(int64_t entries, std::source_location where) const {
  api::at(where, [&] {
    if (entries < 1)
      fail(ErrorKind::kValue, "remote buffer {} can't have {} entries; it needs 1 at least", id_, entries);
  });
  found(*this).entries = entries;
}

RemoteBuffer remoteBuffer(const TensorSpec& spec, int64_t entries, std::source_location where) {
  return api::at(where, [&] {
    ir::Ir& ir = ir::Context::current().requireGraph().ir();
    for (const int64_t d : spec.shape) {
      if (d < 0) fail(ErrorKind::kValue, "shape {} has a negative dimension", toString(spec.shape));
    }
    const ir::RemoteBuffer& made = ir.addRemoteBuffer({spec.dtype, spec.shape, {}}, entries);
    return RemoteBuffer(ir.shared_from_this(), made.id);
  });
}

Tensor detail::addRemoteVariable(const void* data, int64_t count, std::optional<DType> dtype,
                                 const RemoteBuffer& buffer, int64_t entry, std::string_view name,
                                 std::source_location where) {
  const TensorSpec spec = buffer.spec();
  api::at(where, [&] {
    checkIr(buffer);
    if (dtype && *dtype != spec.dtype) {
      fail(ErrorKind::kType, "remote buffer {} holds {}; the data of variable `{}` are {}", buffer.id(),
           nameOf(spec.dtype), name, nameOf(*dtype));
    }
    if (entry < 0)
      fail(ErrorKind::kValue, "variable `{}` can't be in entry {} of a remote buffer", name, entry);
  });
  const Tensor made = addData(data, count, !dtype.has_value(), spec, name, true, where);
  ir::VariableSettings& settings = made.get()->settings();
  settings.remoteBuffer = buffer.id();
  settings.remoteEntry = entry;
  return made;
}

namespace ops {

Tensor remoteLoad(const RemoteBuffer& buffer, const RemoteEntry& entry, std::string_view name,
                  std::source_location where) {
  const std::string base(name);
  const auto memory = [&] {
    const TensorSpec spec = buffer.spec();
    const ir::Op* init = ir::Context::current().addOp(
        def("init"), {}, {spec.shape, spec.dtype, ir::Attr(std::string("undef"))}, ir::Loc::from(where),
        false, {base + "_init"});
    return init->output();
  };
  return api::wrap(addAccess("remote_load", buffer, entry, memory, false, where, {base})->output());
}

Tensor remoteLoad_(const RemoteBuffer& buffer, const RemoteEntry& entry, const Tensor& t,
                   std::source_location where) {
  return api::wrap(addAccess(
                       "remote_load", buffer, entry, [&] { return t.get(); }, true, where)
                       ->output());
}

void remoteStore(const RemoteBuffer& buffer, const RemoteEntry& entry, const Tensor& t,
                 std::source_location where) {
  addAccess(
      "remote_store", buffer, entry, [&] { return t.get(); }, false, where);
}

}  // namespace ops
}  // namespace popxl
