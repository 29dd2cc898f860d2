#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace popxl::ops {

/// One transfer of a multi_exchange: an op by name ("host_load", "host_store", "remote_load", "remote_store")
/// with its attribute, the id of a stream or the number of a remote buffer.
struct Exchange {
  std::string name;
  std::string target;

  bool loads() const { return name.ends_with("_load"); }
  bool isRemote() const { return name.starts_with("remote_"); }
  size_t operands() const { return isRemote() ? 2 : 1; }
};

/// The transfers of a multi_exchange in order; their operands, and results of loads, follow each other.
std::vector<Exchange> exchangesOf(const ir::Op& op);
/// The attribute that exchangesOf reads.
std::string textOf(const std::vector<Exchange>& exchanges);

}  // namespace popxl::ops
