#pragma once

#include <cstdint>

namespace popxl::kernels {

/// Threads that parallelFor may use, the caller included; initially the number of usable cores, or
/// POPXL_NUM_THREADS.
int threadCount();
/// Changes it; n >= 1, Error(kValue) otherwise. Never changes a result.
void setThreadCount(int n);

/// Runs body(0) ... body(chunks - 1), in any order, on the one pool (oneTBB); returns when all are done.
/// Chunks are claimed one by one: those of a thread's own part in order, then others'. With one chunk or one
/// thread it is a plain loop. Results never depend on the number of threads: how work is cut into chunks
/// follows from shapes alone, except where no cut changes a bit.
template <typename Body>
void parallelFor(int64_t chunks, const Body& body);

/// Elements of elementwise work below which a kernel stays serial.
inline constexpr int64_t kSerialElements = 32 * 1024;

namespace detail {
using ChunkFn = void (*)(const void* body, int64_t chunk);
void runChunks(int64_t chunks, ChunkFn fn, const void* body);
}  // namespace detail

template <typename Body>
void parallelFor(int64_t chunks, const Body& body) {
  if (chunks == 1) {
    body(int64_t{0});
    return;
  }
  detail::runChunks(
      chunks, [](const void* b, int64_t chunk) { (*static_cast<const Body*>(b))(chunk); }, &body);
}

}  // namespace popxl::kernels
