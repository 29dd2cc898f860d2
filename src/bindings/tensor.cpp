#include "ir/tensor.h"

#include <fmt/format.h>

#include "bindings/convert.h"
#include "bindings/module.h"

namespace popxl::bindings {
namespace {

/// Names of tensor kinds that programs of the original compare with.
enum class PublicKind { kActGrad, kConst, kStream, kVariable };

PublicKind publicKind(ir::TensorKind kind) {
  switch (kind) {
    case ir::TensorKind::kVariable:
      return PublicKind::kVariable;
    case ir::TensorKind::kConstant:
      return PublicKind::kConst;
    case ir::TensorKind::kStream:
      return PublicKind::kStream;
    default:
      return PublicKind::kActGrad;
  }
}

std::string lowerName(DType dtype) { return std::string(nameOf(dtype)); }

bool isAliased(const TensorHandle& t) {
  for (const ir::Use& use : t->uses()) {
    for (const ir::Alias& alias : use.op->aliases()) {
      if (alias.input == use.index) return true;
    }
  }
  return false;
}

nb::list consumers(const TensorHandle& t) {
  nb::list out;
  for (const ir::Use& use : t->uses()) out.append(nb::make_tuple(handle(*use.op), use.index));
  return out;
}

void bindInfo(nb::module_& m) {
  nb::enum_<PublicKind>(m, "TensorType", "What a tensor is.")
      .value("ActGrad", PublicKind::kActGrad)
      .value("Const", PublicKind::kConst)
      .value("Stream", PublicKind::kStream)
      .value("Variable", PublicKind::kVariable);
  nb::class_<ir::TensorType>(m, "TensorInfo", "Shape and element type of a tensor.")
      .def("shape", [](const ir::TensorType& t) { return fromShape(t.shape); })
      .def("metaShape", [](const ir::TensorType& t) { return fromShape(t.metaShape); })
      .def("dataType", [](const ir::TensorType& t) { return t.dtype; })
      .def("data_type_lcase", [](const ir::TensorType& t) { return lowerName(t.dtype); })
      .def("rank", [](const ir::TensorType& t) { return t.shape.size(); })
      .def("nelms", &ir::TensorType::numElements)
      .def("nbytes", &ir::TensorType::bytes)
      .def("__str__", &ir::TensorType::str);
}

void bindSettings(nb::class_<TensorHandle>& cls) {
  cls.def(
      "set_groups",
      [](const TensorHandle& t, std::vector<int32_t> groupOf, int64_t numGroups, bool allReplicas) {
        ir::VariableSettings& settings = t->settings();
        settings.groupOf = std::move(groupOf);
        settings.numGroups = numGroups;
        settings.retrieveAllReplicas = allReplicas;
      },
      nb::arg("group_of"), nb::arg("num_groups"), nb::arg("all_replicas"),
      "Which replicas share a value of this variable, and whether the value of each is read back.");
  cls.def(
      "set_remote",
      [](const TensorHandle& t, int64_t buffer, int64_t entry, std::vector<int32_t> shards) {
        ir::VariableSettings& settings = t->settings();
        settings.remoteBuffer = buffer;
        settings.remoteEntry = entry;
        settings.shardOf = std::move(shards);
      },
      nb::arg("buffer"), nb::arg("entry"), nb::arg("shards"),
      "Keeps this variable in an entry of a remote buffer.");
  cls.def_prop_ro("num_groups", [](const TensorHandle& t) { return t->settings().numGroups; });
  cls.def_prop_ro("retrieves_all_replicas",
                  [](const TensorHandle& t) { return t->settings().retrieveAllReplicas; });
}

}  // namespace

void bindTensor(nb::module_& m) {
  bindInfo(m);
  auto cls = nb::class_<TensorHandle>(m, "Tensor", "A tensor of a graph.");
  bindIdentity(cls);
  cls.def_prop_ro("id", [](const TensorHandle& t) { return t->id(); })
      .def_prop_ro("name", [](const TensorHandle& t) { return t->name(); })
      .def_prop_ro("kind", [](const TensorHandle& t) { return static_cast<int>(t->kind()); })
      .def_prop_ro("dtype_code", [](const TensorHandle& t) { return static_cast<int>(t->dtype()); })
      .def_prop_ro("shape", [](const TensorHandle& t) { return fromShape(t->shape()); })
      .def_prop_ro("meta_shape", [](const TensorHandle& t) { return fromShape(t->type().metaShape); })
      .def_prop_ro("rank", [](const TensorHandle& t) { return t->rank(); })
      .def_prop_ro("nelms", [](const TensorHandle& t) { return t->type().numElements(); })
      .def_prop_ro("info", [](const TensorHandle& t) { return t->type(); })
      .def_prop_ro("ir_id", [](const TensorHandle& t) { return t.ir->id(); })
      .def_prop_ro("erased", [](const TensorHandle& t) { return t->erased(); })
      .def_prop_ro("by_ref", [](const TensorHandle& t) { return t->byRef(); })
      .def_prop_ro("producer", [](const TensorHandle& t) { return orNone(t->producer()); })
      .def_prop_ro("producer_index", [](const TensorHandle& t) { return t->producerIndex(); })
      .def_prop_ro("uses", &consumers, "The ops that read this tensor, each with the index of the operand.")
      .def("set_by_ref", [](const TensorHandle& t, bool value) { t->setByRef(value); })
      .def(
          "mark_implicit", [](const TensorHandle& t) { t->markImplicit(); },
          "For a tensor that was made on the way to an op: it goes when that op fails.")
      .def("tensorType", [](const TensorHandle& t) { return publicKind(t->kind()); })
      .def("getGraph", [](const TensorHandle& t) { return handle(t->graph()); })
      .def("getIr", [](const TensorHandle& t) { return t.ir; })
      .def("hasProducer", [](const TensorHandle& t) { return t->producer() != nullptr; })
      .def("getProducer", [](const TensorHandle& t) { return orNone(t->producer()); })
      .def("hasTensorData", [](const TensorHandle& t) { return t->data() != nullptr; })
      .def("isAliased", &isAliased)
      .def(
          "data",
          [](const TensorHandle& t) -> nb::object {
            if (t->data() == nullptr) return nb::none();
            return viewBytes(t->data());
          },
          "The bytes of a variable or constant on the host, shared, or None.")
      .def(
          "set_data", [](const TensorHandle& t, nb::handle buffer) { t->setData(shareBuffer(buffer)); },
          nb::arg("buffer"),
          "Makes a C-contiguous array the host memory of a variable or constant; it is not copied.")
      .def("__repr__",
           [](const TensorHandle& t) { return fmt::format("Tensor[{} {}]", t->id(), t->type().str()); });
  bindSettings(cls);
}

}  // namespace popxl::bindings
