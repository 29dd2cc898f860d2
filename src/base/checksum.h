#pragma once

#include <cstddef>
#include <cstdint>

namespace popxl {

/// Tells data from damaged data: any change of one 8-byte word changes it. The same on every machine of one
/// byte order.
uint64_t checksum(const std::byte* data, size_t bytes);

}  // namespace popxl
