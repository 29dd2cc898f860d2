#include "kernels/jit_image.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace popxl::kernels::jit {
namespace {

constexpr int kNumPrims = static_cast<int>(Prim::kRoundTo) + 1;
constexpr int kNumVTypes = static_cast<int>(VType::kU64) + 1;
constexpr int kNumAccesses = static_cast<int>(Access::kElement) + 1;
constexpr int kNumIsas = static_cast<int>(Isa::kAvx512) + 1;
constexpr int kNumAddressKinds = static_cast<int>(Address::Kind::kStore) + 1;

void encode(const Slot& slot, ByteWriter& to) {
  to.add(slot.operand).add(slot.dtype).add(slot.access).add(slot.element);
  to.add(static_cast<uint8_t>(slot.streams));
}

Slot decodeSlot(ByteReader& from) {
  Slot slot;
  slot.operand = from.take<int32_t>();
  slot.dtype = from.takeEnum<DType>(kNumDTypes);
  slot.access = from.takeEnum<Access>(kNumAccesses);
  slot.element = from.take<int64_t>();
  slot.streams = from.take<uint8_t>() != 0;
  return slot;
}

void encode(const Call& call, ByteWriter& to) {
  to.add(call.prim).add(call.type).add(call.operand).add(call.dtype).add(call.stream);
  to.add(static_cast<uint8_t>(call.oneSeed));
}

Call decodeCall(ByteReader& from) {
  Call call{};
  call.prim = from.takeEnum<Prim>(kNumPrims);
  call.type = from.takeEnum<VType>(kNumVTypes);
  call.operand = from.takeEnum<VType>(kNumVTypes);
  call.dtype = from.takeEnum<DType>(kNumDTypes);
  call.stream = from.take<uint32_t>();
  call.oneSeed = from.take<uint8_t>() != 0;
  return call;
}

template <class T, class Decode>
void decodeAll(ByteReader& from, std::vector<T>& to, const Decode& decode) {
  const size_t count = from.takeCount(1);
  for (size_t i = 0; i < count && from.ok(); ++i) to.push_back(decode(from));
}

/// Whether all that an image says of places in it is so.
bool isConsistent(const Image& image) {
  const size_t tableBytes = image.outside.size() * sizeof(void*);
  if (image.outputs > image.slots.size() || image.entry >= image.code.size()) return false;
  if (image.table > image.code.size() || image.code.size() - image.table < tableBytes) return false;
  return std::all_of(image.outside.begin(), image.outside.end(), [&](const Address& a) {
    const bool ofCall = a.kind == Address::Kind::kStep || a.kind == Address::Kind::kStepFunction;
    return a.index < (ofCall ? image.calls.size() : image.slots.size());
  });
}

}  // namespace

TileStep stepOf(const Call& call) {
  TileStep step{.dst = 3, .a = 0, .b = 1, .c = 2, .stream = call.stream};
  step.fn = tileFn({.prim = call.prim, .type = call.type, .dtype = call.dtype}, call.operand);
  if (call.oneSeed) step.stepA = step.stepB = 0;  // many elements at once
  return step;
}

std::string Image::encode() const {
  ByteWriter to;
  to.add(isa).add(static_cast<uint64_t>(slots.size()));
  for (const Slot& slot : slots) jit::encode(slot, to);
  to.add(static_cast<uint64_t>(outputs)).add(static_cast<uint64_t>(calls.size()));
  for (const Call& call : calls) jit::encode(call, to);
  to.addString(code).add(entry).add(table).add(static_cast<uint64_t>(outside.size()));
  for (const Address& address : outside) to.add(address.kind).add(address.index);
  return std::move(to.bytes());
}

std::optional<Image> Image::decode(std::string_view bytes) {
  ByteReader from(bytes);
  Image image;
  image.isa = from.takeEnum<Isa>(kNumIsas);
  decodeAll(from, image.slots, decodeSlot);
  image.outputs = from.take<uint64_t>();
  decodeAll(from, image.calls, decodeCall);
  image.code = from.takeString();
  image.entry = from.take<uint64_t>();
  image.table = from.take<uint64_t>();
  decodeAll(from, image.outside, [](ByteReader& r) {
    const auto kind = r.takeEnum<Address::Kind>(kNumAddressKinds);
    return Address{kind, r.take<uint32_t>()};
  });
  if (!from.atEnd() || !isConsistent(image)) return std::nullopt;
  return image;
}

void Image::fillTable(std::string& copy, std::span<const TileStep> steps) const {
  const auto addressOf = [&](const Address& a) {
    switch (a.kind) {
      case Address::Kind::kStep:
        return reinterpret_cast<uintptr_t>(&steps[a.index]);
      case Address::Kind::kStepFunction:
        return reinterpret_cast<uintptr_t>(steps[a.index].fn);
      case Address::Kind::kLoad:
        return reinterpret_cast<uintptr_t>(loadFn(slots[a.index].dtype));
      case Address::Kind::kStore:
        break;
    }
    return reinterpret_cast<uintptr_t>(storeFn(slots[a.index].dtype));
  };
  for (size_t i = 0; i < outside.size(); ++i) {
    const uintptr_t address = addressOf(outside[i]);
    std::memcpy(copy.data() + table + i * sizeof(address), &address, sizeof(address));
  }
}

}  // namespace popxl::kernels::jit
