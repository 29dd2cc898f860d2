#pragma once

#include <popxl/graph.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace popxl {

/// Storage off the device for tensors of one shape and dtype, addressed by entry: a handle like Tensor. All
/// entries are zero at first, and stay from run to run; a Session's RemoteStorage says where they are.
class RemoteBuffer {
 public:
  int64_t id() const { return id_; }  ///< number in its Ir, from 1 up
  TensorSpec spec() const;            ///< of an entry
  int64_t entries() const;
  /// Until a Session is made. Error(kValue) when it is less than 1.
  void setEntries(int64_t entries, std::source_location where = std::source_location::current()) const;

  bool operator==(const RemoteBuffer&) const = default;

  /// For the library itself.
  RemoteBuffer(std::shared_ptr<ir::Ir> ir, int64_t id) : ir_(std::move(ir)), id_(id) {}
  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }

 private:
  std::shared_ptr<ir::Ir> ir_;
  int64_t id_;
};

/// A new remote buffer of the Ir whose graph is entered. Error(kValue) when `entries` is less than 1.
RemoteBuffer remoteBuffer(const TensorSpec& spec, int64_t entries = 1,
                          std::source_location where = std::source_location::current());

namespace detail {
/// `dtype` is that of the data; without one `count` is in bytes.
Tensor addRemoteVariable(const void* data, int64_t count, std::optional<DType> dtype,
                         const RemoteBuffer& buffer, int64_t entry, std::string_view name,
                         std::source_location where);
}  // namespace detail

/// A variable that is kept in an entry of a remote buffer, with the initial value `data`, row-major. Sessions
/// read and write it; ops reach it with remoteLoad and remoteStore. T = std::byte is memory of any dtype.
/// Error(kType) when T is not the buffer's dtype; Error(kValue) when the number of elements differs, the
/// entry is negative, or the buffer is another Ir's.
template <typename T>
Tensor remoteVariable(std::span<const T> data, const RemoteBuffer& buffer, int64_t entry = 0,
                      std::string_view name = "t",
                      std::source_location where = std::source_location::current()) {
  return detail::addRemoteVariable(data.data(), static_cast<int64_t>(data.size()), hostDType<T>(), buffer,
                                   entry, name, where);
}
template <typename T>
Tensor remoteVariable(const std::vector<T>& data, const RemoteBuffer& buffer, int64_t entry = 0,
                      std::string_view name = "t",
                      std::source_location where = std::source_location::current()) {
  return remoteVariable(std::span<const T>(data), buffer, entry, name, where);
}

/// Which entry of a remote buffer an op means: a number, or a tensor of one integer.
using RemoteEntry = std::variant<int64_t, Tensor>;

namespace ops {

// Nothing but InSequence orders loads and stores. All throw Error(kValue) for a buffer of another Ir or a
// number outside [0, 2^32), and when the program runs, for an entry that the buffer does not have.

/// An entry of a remote buffer.
Tensor remoteLoad(const RemoteBuffer& buffer, const RemoteEntry& entry, std::string_view name = "t",
                  std::source_location where = std::source_location::current());
/// Loads an entry into `t`, and gives `t` with that value. Error(kValue) when shape or dtype are not the
/// buffer's.
Tensor remoteLoad_(const RemoteBuffer& buffer, const RemoteEntry& entry, const Tensor& t,
                   std::source_location where = std::source_location::current());
/// Makes `t` an entry of a remote buffer. Error(kValue) when shape or dtype are not the buffer's.
void remoteStore(const RemoteBuffer& buffer, const RemoteEntry& entry, const Tensor& t,
                 std::source_location where = std::source_location::current());

}  // namespace ops
}  // namespace popxl
