#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace popxl {

/// Appends values to bytes, without gaps.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& add(const T& value) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  /// With its size in front.
  ByteWriter& addString(std::string_view value) {
    add(static_cast<uint64_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/// Takes values from bytes that nobody vouches for. From the first one that is not there on, everything is
/// zero and `ok` is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view from = takeBytes(sizeof(T));
    if (!from.empty()) from.copy(reinterpret_cast<char*>(&value), sizeof(T));
    return value;
  }
  std::string_view takeString() { return takeBytes(take<uint64_t>()); }
  /// A number of items, each of at least `least` bytes that are there.
  size_t takeCount(size_t least) {
    const auto count = take<uint64_t>();
    if (count > rest_.size() / least) ok_ = false;
    return ok_ ? static_cast<size_t>(count) : 0;
  }
  /// A number of an enumeration whose values lie below `end`.
  template <class E>
  E takeEnum(int end) {
    const auto number = take<std::underlying_type_t<E>>();
    if (number >= end) ok_ = false;
    return ok_ ? static_cast<E>(number) : E{};
  }
  bool ok() const { return ok_; }
  /// Whether nothing is missing and nothing left.
  bool atEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view takeBytes(uint64_t size) {
    if (size > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace popxl
