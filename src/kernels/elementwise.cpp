#include "kernels/elementwise.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/parallel.h"
#include "kernels/tile_program.h"

namespace popxl::kernels {
namespace {

/// Positions of one chunk of parallel work: enough to hide what a chunk costs, at most 64 chunks or so.
/// Depends on the number of positions alone.
int64_t chunkPositions(int64_t positions, int64_t tile) {
  if (positions <= kSerialElements) return positions;
  const int64_t wanted = std::max(kSerialElements / 2, positions / 64);
  return (wanted + tile - 1) / tile * tile;
}

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(TileProgram program, std::string description)
      : program_(std::move(program)),
        chunk_(chunkPositions(program_.positions, program_.tile)),
        description_(std::move(description)) {}

  void run(std::span<std::byte* const> operands) const override {
    if (program_.positions == 0) return;
    UniformBuffer uniforms;
    const TileInvocation invocation(program_, operands.data(), uniforms);
    parallelFor((program_.positions + chunk_ - 1) / chunk_, [&](int64_t chunk) {
      const int64_t begin = chunk * chunk_;
      runChunk(invocation, begin, std::min(begin + chunk_, program_.positions));
    });
  }

  std::string describe() const override { return description_; }

 private:
  void runChunk(const TileInvocation& invocation, int64_t begin, int64_t end) const {
    TileBuffer buffer;
    TileRunner runner(invocation, buffer);
    for (int64_t start = begin; start < end; start += program_.tile) {
      const int64_t n = std::min(program_.tile, end - start);
      // Whole blocks in place, then what is left through registers.
      const int64_t whole = n / kBlock * kBlock;
      if (whole > 0) runner.run(start, whole);
      if (whole < n) runner.run(start + whole, n - whole);
    }
  }

  TileProgram program_;
  int64_t chunk_;
  std::string description_;
};

}  // namespace

KernelPtr makeElementwise(ElementwiseSpec spec) {
  std::vector<TileOperand> inputs, outputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back({spec.inputs[i].dtype, inputStrides(spec.expr, i, spec.inputs[i], spec.space)});
  }
  for (const Layout& l : spec.outputs) {
    POPXL_ASSERT(l.shape == spec.space, "output of shape {} in space {}", toString(l.shape),
                 toString(spec.space));
    outputs.push_back({l.dtype, l.strides});
  }
  TileProgram program = compileTiles(spec.expr, spec.space, inputs, outputs);
  std::string description = fmt::format("elementwise {} steps {}", program.body.size() - program.loads.size(),
                                        toString(spec.space));
  return std::make_unique<ElementwiseKernel>(std::move(program), std::move(description));
}

}  // namespace popxl::kernels
