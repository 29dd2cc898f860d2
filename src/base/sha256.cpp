#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace popxl {
namespace {

/// Fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t bigEndian(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[i]);
  return value;
}

}  // namespace

void Sha256::addBlock(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = bigEndian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    const uint32_t s0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3;
    const uint32_t s1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> rounds = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += rounds[i];
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t used = size_ % buffer_.size();
    const size_t n = std::min(bytes.size(), buffer_.size() - used);
    if (n == buffer_.size()) {
      addBlock(bytes.data());
    } else {
      std::memcpy(buffer_.data() + used, bytes.data(), n);
      if (used + n == buffer_.size()) addBlock(buffer_.data());
    }
    size_ += n;
    bytes = bytes.subspan(n);
  }
  return *this;
}

Digest Sha256::finish() {
  const uint64_t bits = size_ * 8;
  std::array<std::byte, 64 + 8> padding = {std::byte{0x80}};
  const size_t zeros = (119 - size_ % 64) % 64 + 1;  // with the first bit: up to 8 bytes before a block's end
  for (size_t i = 0; i < 8; ++i) padding[zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(std::span(padding).first(zeros + 8));
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::string_view bytes) { return Sha256().add(bytes).finish(); }

std::string hex(const Digest& digest) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte b : digest) {
    out += kDigits[static_cast<size_t>(b) >> 4];
    out += kDigits[static_cast<size_t>(b) & 15];
  }
  return out;
}

size_t DigestHash::operator()(const Digest& digest) const {
  size_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

}  // namespace popxl
