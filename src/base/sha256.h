#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace popxl {

/// A SHA-256 digest (FIPS 180-4).
using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  /// Of everything added. Nothing can be added any more.
  Digest finish();

 private:
  void addBlock(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> buffer_;
  uint64_t size_ = 0;  // bytes added
};

Digest sha256(std::string_view bytes);
/// 64 lower-case hexadecimal digits.
std::string hex(const Digest& digest);

/// Digests are spread evenly: any of their bits make a hash.
struct DigestHash {
  size_t operator()(const Digest& digest) const;
};

}  // namespace popxl
