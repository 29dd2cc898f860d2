#pragma once

#include "bindings/handles.h"

namespace popxl::bindings {

/// A tensor from a handle or from an object with `_pb_tensor` (popxl.Tensor); None gives null. TypeError
/// otherwise.
ir::Tensor* toTensor(nb::handle value);
/// A graph from a handle or from an object with `_pb_graph` (popxl.Graph). TypeError otherwise.
ir::Graph* toGraph(nb::handle value);
/// A dtype from its name or from an object whose `name` is one (popxl.dtype). ValueError or TypeError
/// otherwise.
DType toDType(nb::handle value);
Shape toShape(nb::handle value);
nb::tuple fromShape(const Shape& shape);
/// A tuple of Python ints to be used as an attribute: what the table says it is. None: absent.
ir::Attr toAttr(nb::handle value, const ir::AttrDef& def);
/// The Python value of an attribute: int, float, bool, str, list, dtype name, graph handle or None.
nb::object fromAttr(const ir::Attr& attr);

/// Host memory shared with a Python buffer (a C-contiguous array); the buffer is held while the memory is.
std::shared_ptr<ir::HostData> shareBuffer(nb::handle buffer);
/// One-dimensional uint8 array over host memory, which it keeps alive.
nb::object viewBytes(std::shared_ptr<ir::HostData> data);

/// The first Python frame outside the project's own packages: where the user's program is.
ir::Loc userLocation();

}  // namespace popxl::bindings
