#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <popxl/ir.h>

namespace popxl {

namespace exec {
class Session;
}  // namespace exec

/// Bytes that a Session takes; known before it runs.
struct MemoryReport {
  int64_t frameBytes = 0;      ///< activations and temporaries: the planned peak
  int64_t variableBytes = 0;
  int64_t constantBytes = 0;
  int64_t total() const { return frameBytes + variableBytes + constantBytes; }
};

/// The host memory of one run, stream by stream. It must live until the run returns.
class HostBuffers {
 public:
  /// Error(kType) when T is not the stream's dtype; Error(kValue) when the size is no multiple of one transfer.
  template <typename T>
  HostBuffers& in(const Stream& stream, std::span<const T> data) {
    return add(stream, dtypeOf<T>(), const_cast<T*>(data.data()), static_cast<int64_t>(data.size()));
  }
  template <typename T>
  HostBuffers& in(const Stream& stream, const std::vector<T>& data) {
    return in(stream, std::span<const T>(data));
  }
  template <typename T>
  HostBuffers& out(const Stream& stream, std::span<T> data) {
    return add(stream, dtypeOf<T>(), data.data(), static_cast<int64_t>(data.size()));
  }
  template <typename T>
  HostBuffers& out(const Stream& stream, std::vector<T>& data) {
    return out(stream, std::span<T>(data));
  }

 private:
  friend class Session;
  struct Entry {
    std::string stream;
    void* data;
    int64_t transfers;
  };
  HostBuffers& add(const Stream& stream, DType dtype, void* data, int64_t elements);
  std::vector<Entry> entries_;
};

/// A compiled program and its memory. Variables keep their values between runs.
class Session {
 public:
  /// Compiles and loads the variables' initial values. Error(kGraph) where nothing orders two ops on the same memory.
  explicit Session(const Ir& ir);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs the main graph once. Error(kValue) when a stream that the program uses has no buffer or too few transfers.
  void run(const HostBuffers& buffers = {});

  /// The present value of a variable or constant. Error(kType) when T is not its dtype.
  template <typename T>
  std::vector<T> tensorData(const Tensor& t) {
    std::vector<T> out(static_cast<size_t>(t.numElements()));
    read(t, dtypeOf<T>(), out.data());
    return out;
  }
  /// Sets a variable. Error(kType) or Error(kValue) when dtype or number of elements differ.
  template <typename T>
  void writeVariable(const Tensor& t, const std::vector<T>& data) {
    write(t, dtypeOf<T>(), data.data(), static_cast<int64_t>(data.size()));
  }

  MemoryReport memory() const;
  /// The compiled program, one instruction a line.
  std::string programText() const;

 private:
  void read(const Tensor& t, DType dtype, void* to);
  void write(const Tensor& t, DType dtype, const void* from, int64_t elements);

  std::unique_ptr<exec::Session> session_;
  bool hostIsBehind_ = false;
};

}  // namespace popxl
