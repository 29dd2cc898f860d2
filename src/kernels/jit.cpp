#include "kernels/jit.h"

#include <asmjit/x86.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/logging.h"
#include "base/result_store.h"
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

/// A copy of code in pages of its own, never writable and executable at once. They are private: what a
/// process and one that it forked compile after that must not meet.
std::byte* place(std::string_view code) {
  using Flags = asmjit::VirtMem::MemoryFlags;
  void* pages = nullptr;
  asmjit::Error error = asmjit::VirtMem::alloc(&pages, code.size(), Flags::kAccessRW);
  POPXL_ASSERT(error == asmjit::kErrorOk, "no memory for machine code: error {}", error);
  std::memcpy(pages, code.data(), code.size());
  error = asmjit::VirtMem::protect(pages, code.size(), Flags::kAccessRX);
  POPXL_ASSERT(error == asmjit::kErrorOk, "machine code can't be made executable: error {}", error);
  return static_cast<std::byte*>(pages);
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
    for (const Operand& o : operands) append(key, o.dtype), append(key, o.access), append(key, o.streams);
  }
  return key;
}

Image generate(const Code& code) {
  asmjit::CodeHolder holder;
  holder.init(asmjit::Environment::host());
  Failure failure;
  holder.setErrorHandler(&failure);
  asmjit::x86::Assembler assembler(&holder);
  X86Emitter emitter(code, assembler);
  const asmjit::Label entry = emitter.run();
  POPXL_ASSERT(failure.error == asmjit::kErrorOk, "machine code: error {}", failure.error);
  POPXL_ASSERT(holder.relocEntries().empty(), "machine code depends on its place");
  const asmjit::CodeBuffer& bytes = holder.textSection()->buffer();
  return {.isa = code.isa,
          .slots = code.slots,
          .outputs = code.outputs,
          .calls = code.calls,
          .code = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
          .entry = holder.labelOffset(entry),
          .table = holder.labelOffset(emitter.table()),
          .outside = emitter.outside()};
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
    ResultStore* store = ResultStore::current();
    const Digest digest = store == nullptr ? Digest() : Sha256().add("machine code").add(key).finish();
    const auto stored = store == nullptr ? std::nullopt : store->find(digest);
    std::optional<Image> image = stored ? Image::decode(*stored) : std::nullopt;
    const bool isStored = image.has_value();
    const std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<const Function>& known = known_[key];
    std::shared_ptr<const Function> function = known.lock();
    if (function == nullptr) {
      if (!image) image = generate(lowerExpr(isa, expr, inputs, outputs));
      function.reset(new Function(std::move(*image), std::move(key)));
      known = function;
    }
    if (store != nullptr && !isStored) store->add(digest, function->image_.encode());
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

Function::Function(Image image, std::string key) : image_(std::move(image)), key_(std::move(key)) {
  POPXL_ASSERT(image_.slots.size() <= kMaxSlots, "{} slots", image_.slots.size());
  for (const Call& call : image_.calls) steps_.push_back(stepOf(call));
  std::string code = image_.code;
  image_.fillTable(code, steps_);
  base_ = place(code);
  entry_ = reinterpret_cast<Entry>(base_ + image_.entry);
}

Function::~Function() {
  asmjit::VirtMem::release(base_, image_.code.size());
  Cache::instance().forget(key_);
}

void Function::run(const Block& block) const {
  const int64_t lanes = lanesOf(image_.isa);
  if (image_.isa == Isa::kAvx512 || block.columns % lanes == 0) return entry_(&block);
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
  const auto inputs = image_.slots.size() - image_.outputs;
  for (int64_t row = 0; row < block.rows; ++row) {
    const auto forElements = [&](size_t i, const auto& move) {
      const Slot& slot = image_.slots[i];
      const int64_t bytes = popxl::sizeOf(slot.dtype);
      const int64_t step = slot.access == Access::kDense ? bytes : block.strides[i] * bytes;
      std::byte* from = block.pointers[i] + row * block.rowStrides[i] + done * step;
      for (int64_t k = 0; k < block.columns - done; ++k) move(from + k * step, buffers[i] + k * bytes, bytes);
    };
    for (size_t i = 0; i < image_.slots.size(); ++i) {
      const Access access = image_.slots[i].access;
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
                     .columns = lanesOf(image_.isa),
                     .position = block.position + static_cast<uint64_t>(row * block.rowPositions + done)};
    entry_(&tail);
    for (size_t i = inputs; i < image_.slots.size(); ++i) {
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
