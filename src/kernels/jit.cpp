#include "kernels/jit.h"

#include <asmjit/x86.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/logging.h"
#include "kernels/jit_x86.h"

// Debian's archive of asmjit cannot be linked into a shared library for the sake of one file, the one that
// prints. These are its functions, so that the linker leaves that file out.
ASMJIT_BEGIN_NAMESPACE
const char* DebugUtils::errorAsString(Error) noexcept { return "asmjit"; }
void DebugUtils::debugOutput(const char* text) noexcept { popxl::log().error("asmjit: {}", text); }
void DebugUtils::assertionFailed(const char* file, int line, const char* text) noexcept {
  popxl::log().error("asmjit {}:{}: {}", file, line, text);
  std::abort();
}
ASMJIT_END_NAMESPACE

namespace popxl::kernels::jit {
namespace {

/// Memory for code, never writable where it is executable. It lives until the process ends: a group may be
/// freed by a destructor that runs last.
asmjit::JitRuntime& runtime() {
  static asmjit::JitRuntime& instance = *[] {
    asmjit::JitAllocator::CreateParams params;
    params.options = asmjit::JitAllocatorOptions::kUseDualMapping;
    return new asmjit::JitRuntime(&params);
  }();
  return instance;
}

/// Keeps the first error.
struct Failure : asmjit::ErrorHandler {
  void handleError(asmjit::Error code, const char*, asmjit::BaseEmitter*) override {
    if (error == asmjit::kErrorOk) error = code;
  }
  asmjit::Error error = asmjit::kErrorOk;
};

template <class T>
void append(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string keyOf(Isa isa, const Expr& expr, std::span<const Operand> inputs,
                  std::span<const Operand> outputs) {
  std::string key;
  key.reserve(expr.nodes().size() * 48);
  append(key, isa);  // that of the tile code, too
  for (const Node& n : expr.nodes()) {
    append(key, n.prim), append(key, n.type), append(key, n.dtype);
    append(key, n.a), append(key, n.b), append(key, n.c), append(key, n.index);
    append(key, n.element), append(key, n.number), append(key, n.integer);
  }
  append(key, int64_t{-1});
  for (const int32_t id : expr.outputs()) append(key, id);
  for (const auto& operands : {inputs, outputs}) {
    append(key, int64_t{-1});
    for (const Operand& o : operands) append(key, o.dtype), append(key, o.access);
  }
  return key;
}

}  // namespace

/// Groups in use, by what they compute. Equal layers of a model, and equal programs, share one.
class Cache {
 public:
  static Cache& instance() {
    static Cache& cache = *new Cache;
    return cache;
  }

  std::shared_ptr<const Function> get(Isa isa, const Expr& expr, std::span<const Operand> inputs,
                                      std::span<const Operand> outputs) {
    std::string key = keyOf(isa, expr, inputs, outputs);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<const Function>& known = known_[key];
    if (std::shared_ptr<const Function> function = known.lock()) return function;
    std::shared_ptr<const Function> function(
        new Function(lowerExpr(isa, expr, inputs, outputs), std::move(key)));
    known = function;
    return function;
  }

  /// Of a group that is being freed; another one may have its key by now.
  void forget(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end() && it->second.expired()) known_.erase(it);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const Function>> known_;
};

Function::Function(Code code, std::string key) : code_(std::move(code)), key_(std::move(key)) {
  POPXL_ASSERT(code_.slots.size() <= kMaxSlots, "{} slots", code_.slots.size());
  asmjit::CodeHolder holder;
  holder.init(runtime().environment());
  Failure failure;
  holder.setErrorHandler(&failure);
  asmjit::x86::Assembler assembler(&holder);
  const asmjit::Label entry = X86Emitter(code_, assembler).run();
  POPXL_ASSERT(failure.error == asmjit::kErrorOk, "machine code: error {}", failure.error);
  std::byte* base = nullptr;
  const asmjit::Error error = runtime().add(&base, &holder);
  POPXL_ASSERT(error == asmjit::kErrorOk, "no memory for machine code: error {}", error);
  base_ = base;
  entry_ = reinterpret_cast<Entry>(base + holder.labelOffset(entry));
}

Function::~Function() {
  runtime().release(base_);
  Cache::instance().forget(key_);
}

void Function::run(const Block& block) const {
  const int64_t lanes = lanesOf(code_.isa);
  if (code_.isa == Isa::kAvx512 || block.columns % lanes == 0) return entry_(&block);
  const int64_t whole = block.columns / lanes * lanes;
  if (whole > 0) {
    Block part = block;
    part.columns = whole;
    entry_(&part);
  }
  runTail(block, whole);
}

/// Columns from `done` on, fewer than a vector has lanes, by way of buffers that have a whole vector.
void Function::runTail(const Block& block, int64_t done) const {
  constexpr int64_t kBufferBytes = 8 * 8;
  alignas(64) std::byte buffers[kMaxSlots][kBufferBytes];
  std::byte* pointers[kMaxSlots];
  int64_t ones[kMaxSlots];
  const auto inputs = code_.slots.size() - code_.outputs;
  for (int64_t row = 0; row < block.rows; ++row) {
    const auto forElements = [&](size_t i, const auto& move) {
      const Slot& slot = code_.slots[i];
      const int64_t bytes = popxl::sizeOf(slot.dtype);
      const int64_t step = slot.access == Access::kDense ? bytes : block.strides[i] * bytes;
      std::byte* from = block.pointers[i] + row * block.rowStrides[i] + done * step;
      for (int64_t k = 0; k < block.columns - done; ++k) move(from + k * step, buffers[i] + k * bytes, bytes);
    };
    for (size_t i = 0; i < code_.slots.size(); ++i) {
      const Access access = code_.slots[i].access;
      ones[i] = 1;
      pointers[i] = buffers[i];
      if (access == Access::kElement) {
        pointers[i] = block.pointers[i];
      } else if (access == Access::kUniform) {
        pointers[i] = block.pointers[i] + row * block.rowStrides[i];
      } else if (i < inputs) {
        std::memset(buffers[i], 0, kBufferBytes);
        forElements(i, [](std::byte* memory, std::byte* buffer, int64_t n) {
          std::memcpy(buffer, memory, static_cast<size_t>(n));
        });
      }
    }
    const Block tail{.pointers = pointers,
                     .rowStrides = block.rowStrides,
                     .strides = ones,
                     .columns = lanesOf(code_.isa),
                     .position = block.position + static_cast<uint64_t>(row * block.rowPositions + done)};
    entry_(&tail);
    for (size_t i = inputs; i < code_.slots.size(); ++i) {
      forElements(i, [](std::byte* memory, std::byte* buffer, int64_t n) {
        std::memcpy(memory, buffer, static_cast<size_t>(n));
      });
    }
  }
}

std::shared_ptr<const Function> compile(Isa isa, const Expr& expr, std::span<const Operand> inputs,
                                        std::span<const Operand> outputs) {
  return Cache::instance().get(isa, expr, inputs, outputs);
}

}  // namespace popxl::kernels::jit
