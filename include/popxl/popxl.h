#pragma once

// The whole public API.

#include <popxl/call.h>
#include <popxl/custom_op.h>
#include <popxl/dtype.h>
#include <popxl/error.h>
#include <popxl/graph.h>
#include <popxl/ir.h>
#include <popxl/machine.h>
#include <popxl/memory.h>
#include <popxl/ops.h>
#include <popxl/profile.h>
#include <popxl/remote.h>
#include <popxl/remote_storage.h>
#include <popxl/scope.h>
#include <popxl/session.h>
#include <popxl/surgery.h>
#include <popxl/tensor.h>
#include <popxl/transforms.h>
