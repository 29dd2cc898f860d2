#pragma once

#include <popxl/engine.h>
#include <popxl/ir.h>
#include <popxl/memory.h>
#include <popxl/profile.h>
#include <popxl/remote_storage.h>

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace popxl {

namespace exec {
class Session;
}  // namespace exec

/// The host memory of one run, stream by stream, laid out (transfers, replicas, shape...). It must live until
/// the run returns. T = std::byte passes memory of any dtype.
class HostBuffers {
 public:
  /// Error(kType) when T is not the stream's dtype; Error(kValue) when the stream runs the other way or the
  /// size is no multiple of one transfer.
  template <typename T>
  HostBuffers& in(const Stream& stream, std::span<const T> data) {
    return add(stream, true, hostDType<T>(), const_cast<T*>(data.data()), static_cast<int64_t>(data.size()));
  }
  template <typename T>
  HostBuffers& in(const Stream& stream, const std::vector<T>& data) {
    return in(stream, std::span<const T>(data));
  }
  template <typename T>
  HostBuffers& out(const Stream& stream, std::span<T> data) {
    return add(stream, false, hostDType<T>(), data.data(), static_cast<int64_t>(data.size()));
  }
  template <typename T>
  HostBuffers& out(const Stream& stream, std::vector<T>& data) {
    return out(stream, std::span<T>(data));
  }

 private:
  friend class Session;
  struct Entry {
    Stream stream;
    void* data;
    int64_t tensors;
  };
  HostBuffers& add(const Stream& stream, bool toDevice, std::optional<DType> dtype, void* data,
                   int64_t count);
  std::vector<Entry> entries_;
};

/// A compiled program and its memory. Variables keep their values between runs.
class Session {
 public:
  /// Compiles and loads the variables' initial values. Remote buffers are kept where `storage` says; if a
  /// file of them is there already, they have the values of the file. Error(kGraph) where nothing orders two
  /// ops on the same memory; Error(kRuntime) where there can be no file, or the one there is in use, damaged
  /// or another program's.
  explicit Session(const Ir& ir, EngineKind engine = EngineKind::kCompiled,
                   const RemoteStorage& storage = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs the main graph once. Error(kValue) when a stream that the program uses has no buffer or too few
  /// transfers, or a buffer's stream is another Ir's. A run that failed half way leaves no variable to trust:
  /// reading one and further runs are refused with Error(kDevice) until all of them have been written again.
  void run(const HostBuffers& buffers = {});

  /// The present value of a variable or constant, one after the other where groups of replicas have their
  /// own. Error(kType) when T is not its dtype, Error(kValue) for a tensor of another Ir. T = std::byte reads
  /// any dtype.
  template <typename T>
  std::vector<T> tensorData(const Tensor& t) {
    std::vector<T> out(static_cast<size_t>(count(t, hostDType<T>())));
    read(t, out.data());
    return out;
  }
  /// Sets a variable. Error(kType) or Error(kValue) when dtype or number of elements differ.
  template <typename T>
  void writeVariable(const Tensor& t, std::span<const T> data) {
    write(t, hostDType<T>(), data.data(), static_cast<int64_t>(data.size()));
  }
  template <typename T>
  void writeVariable(const Tensor& t, const std::vector<T>& data) {
    writeVariable(t, std::span<const T>(data));
  }

  /// Takes the time of every instruction of the runs until stopProfile, which tells where it went; without
  /// one, runs are not slowed. `peaks`: what the machine can do, measured if not given. Error(kValue) from
  /// startProfile while a profile is being taken, from stopProfile when none is.
  void startProfile(const std::optional<MachinePeaks>& peaks = std::nullopt);
  Profile stopProfile();

  /// Brings remote buffers in files to the disk, where they outlive a failure of power.
  void flushRemoteBuffers();

  /// What the session takes, what it holds when it needs most, and whether that fits a size.
  MemoryReport memory() const;
  /// The compiled program, one instruction a line.
  std::string programText() const;

 private:
  void fetch();
  int64_t count(const Tensor& t, std::optional<DType> dtype) const;
  void read(const Tensor& t, void* to);
  void write(const Tensor& t, std::optional<DType> dtype, const void* from, int64_t given);

  std::unique_ptr<exec::Session> session_;
  bool hostIsBehind_ = false;
  std::set<std::string> lost_;  // variables that a failed run may have half changed
};

}  // namespace popxl
