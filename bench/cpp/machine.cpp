// What this machine can do, as one line of JSON. Everything else is reported as a share of these.

#include "popxl/machine.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kernels/parallel.h"

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    fmt::print(stderr, "usage: {} [threads >= 1]\n", argv[0]);
    return 2;
  }
  popxl::kernels::setThreadCount(threads);
  const auto peaks = popxl::MachinePeaks::measure();
  fmt::print(
      "{{\"threads\": {}, \"gflops\": {:.1f}, \"gbytes_per_s\": {:.2f}, \"cache_gbytes_per_s\": {:.1f}}}\n",
      threads, peaks.flopsPerSecond / 1e9, peaks.memoryBytesPerSecond / 1e9, peaks.cacheBytesPerSecond / 1e9);
  return 0;
}
