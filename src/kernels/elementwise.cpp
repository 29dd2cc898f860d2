#include "kernels/elementwise.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/jit_walk.h"
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

/// Primitives that compute something.
int64_t countSteps(const Expr& expr) {
  const std::vector<bool> used = usedNodes(expr);
  int64_t steps = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    const Prim prim = expr.nodes()[i].prim;
    if (used[i] && arity(prim) > 0 && prim != Prim::kBitcast) ++steps;
  }
  return steps;
}

/// Machine code of the group, over chunks.
class CompiledKernel final : public Kernel {
 public:
  CompiledKernel(jit::Walk walk, std::string description)
      : walk_(std::move(walk)),
        chunk_(chunkPositions(walk_.positions(), kBlock)),
        description_(std::move(description)) {}

  void run(std::span<std::byte* const> operands) const override {
    const int64_t positions = walk_.positions();
    parallelFor((positions + chunk_ - 1) / std::max<int64_t>(chunk_, 1), [&](int64_t chunk) {
      const int64_t begin = chunk * chunk_;
      walk_.run(operands.data(), begin, std::min(begin + chunk_, positions));
    });
  }

  std::string describe() const override { return description_; }

 private:
  jit::Walk walk_;
  int64_t chunk_;
  std::string description_;
};

/// Tile code over chunks.
class TileKernel final : public Kernel {
 public:
  TileKernel(TileProgram program, std::string description)
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

KernelPtr makeElementwise(ElementwiseSpec spec, Backend backend) {
  std::vector<TileOperand> inputs, outputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back({spec.inputs[i].dtype, inputStrides(spec.expr, i, spec.inputs[i], spec.space)});
  }
  for (const Layout& l : spec.outputs) {
    POPXL_ASSERT(l.shape == spec.space, "output of shape {} in space {}", toString(l.shape),
                 toString(spec.space));
    outputs.push_back({l.dtype, l.strides});
  }
  std::string description =
      fmt::format("elementwise {} steps {}", countSteps(spec.expr), toString(spec.space));
  const auto isa = backend == Backend::kTiles ? std::nullopt : jit::chosenIsa();
  POPXL_ASSERT(isa || backend != Backend::kCompiled, "no machine code for this machine");
  if (isa) {
    return std::make_unique<CompiledKernel>(jit::Walk(*isa, spec.expr, spec.space, inputs, outputs),
                                            std::move(description));
  }
  return std::make_unique<TileKernel>(compileTiles(spec.expr, spec.space, inputs, outputs),
                                      std::move(description));
}

}  // namespace popxl::kernels
