#include "kernels/elementwise.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/boolean_words.h"
#include "kernels/copy.h"
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

/// The same logic on words of four booleans; nothing unless all operands are booleans side by side and every
/// primitive is one on truth values.
std::optional<jit::Walk> wordsOf(jit::Isa isa, const ElementwiseSpec& spec) {
  const auto isDense = [&](const Layout& l) {
    return l.dtype == DType::kBool && l.shape == spec.space && l.isContiguous();
  };
  const int64_t words = numElements(spec.space) / kBooleansPerWord;
  if (words == 0 || !std::all_of(spec.inputs.begin(), spec.inputs.end(), isDense) ||
      !std::all_of(spec.outputs.begin(), spec.outputs.end(), isDense))
    return std::nullopt;
  const std::optional<Expr> expr = onBooleanWords(spec.expr);
  if (!expr) return std::nullopt;
  const TileOperand operand{DType::kUInt32, {1}};
  const std::vector<TileOperand> inputs(spec.inputs.size(), operand), outputs(spec.outputs.size(), operand);
  return jit::Walk(isa, *expr, {words}, inputs, outputs, kStreamBytes);
}

/// Machine code of the group, over chunks; of logic on side by side booleans, code for whole words of them
/// and code for what is left.
class CompiledKernel final : public Kernel {
 public:
  CompiledKernel(jit::Walk walk, std::optional<jit::Walk> words, std::string description)
      : walk_(std::move(walk)),
        words_(std::move(words)),
        chunk_(chunkPositions(walk_.positions(), kBlock)),
        description_(std::move(description)) {}

  void run(std::span<std::byte* const> operands) const override {
    const int64_t positions = walk_.positions();
    parallelFor((positions + chunk_ - 1) / std::max<int64_t>(chunk_, 1), [&](int64_t chunk) {
      int64_t begin = chunk * chunk_;
      const int64_t end = std::min(begin + chunk_, positions);
      if (words_) {
        words_->run(operands.data(), begin / kBooleansPerWord, end / kBooleansPerWord);
        begin = end / kBooleansPerWord * kBooleansPerWord;
      }
      if (begin < end) walk_.run(operands.data(), begin, end);
    });
  }

  std::string describe() const override { return description_; }

 private:
  jit::Walk walk_;
  std::optional<jit::Walk> words_;
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
  const int64_t steps = countSteps(spec.expr);
  std::string description = fmt::format("elementwise {} steps {}", steps, toString(spec.space));
  const auto isa = backend == Backend::kTiles ? std::nullopt : jit::chosenIsa();
  POPXL_ASSERT(isa || backend != Backend::kCompiled, "no machine code for this machine");
  if (isa) {
    jit::Walk walk(*isa, spec.expr, spec.space, inputs, outputs, kStreamBytes);
    // Code that only calls tile code, for one block at a time, is slower than tile code itself.
    const bool onlyCalls = steps > 0 && static_cast<int64_t>(walk.calls()) >= steps;
    if (backend == Backend::kCompiled || !onlyCalls) {
      return std::make_unique<CompiledKernel>(std::move(walk), wordsOf(*isa, spec), std::move(description));
    }
  }
  return std::make_unique<TileKernel>(compileTiles(spec.expr, spec.space, inputs, outputs),
                                      std::move(description));
}

}  // namespace popxl::kernels
