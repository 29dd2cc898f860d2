#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/tile_program.h"

namespace popxl::kernels {
namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

/// Where a value is the same: in the kernel's life, in one run, or at one position only.
enum class Extent : uint8_t { kUnused, kConstant, kUniform, kTile };

class Compiler {
 public:
  Compiler(const Expr& expr, const Shape& space, const std::vector<TileOperand>& inputs,
           const std::vector<TileOperand>& outputs)
      : expr_(expr), space_(space), inputs_(inputs), outputs_(outputs) {}

  TileProgram run() {
    program_.positions = numElements(space_);
    program_.inputCount = static_cast<int32_t>(inputs_.size());
    for (const TileOperand& input : inputs_) walks_.emplace_back(space_, input.strides);
    classify();
    placeFixed();
    for (size_t id = 0; id < nodes().size(); ++id) emit(static_cast<int32_t>(id));
    for (const int32_t id : expr_.outputs()) outputValues_.push_back(tileValue(id));
    for (size_t i = 0; i < outputs_.size(); ++i) addStore(i);
    assignRegisters();
    chooseTile();
    for (const int32_t value : outputValues_) program_.outputSlots.push_back(slotOf(value));
    return std::move(program_);
  }

 private:
  const std::vector<Node>& nodes() const { return expr_.nodes(); }
  const Node& node(int32_t id) const { return nodes()[static_cast<size_t>(id)]; }
  Extent& extent(int32_t id) { return extents_[static_cast<size_t>(id)]; }

  /// Conversions that keep the bits share their operand's slot.
  bool isAlias(const Node& n) const {
    if (n.prim == Prim::kBitcast) return true;
    if (n.prim != Prim::kConvert) return false;
    const VType from = node(n.a).type;
    return !isFloatType(from) && !isFloatType(n.type) && sizeOf(from) == sizeOf(n.type);
  }
  int32_t root(int32_t id) const {
    while (isAlias(node(id))) id = node(id).a;
    return id;
  }

  void markUsed();
  void classify();
  void placeFixed();
  template <class T>
  int32_t appendConstant(T value);
  int32_t addConstant(const Node& n);
  void emit(int32_t id);
  TileStep makeStep(int32_t id);
  int32_t tileValue(int32_t id);
  void addLoad(int32_t id);
  void addStore(size_t i);
  void assignRegisters();
  std::vector<int32_t> lastUses() const;
  void chooseTile();

  /// Values: the program's constants, uniforms and tile values are numbered apart until all are known.
  uint32_t slotOf(int32_t value) const { return static_cast<uint32_t>(value); }
  int32_t newTileValue(int64_t bytes) {
    tileBytes_.push_back(bytes);
    return firstTile_ + static_cast<int32_t>(tileBytes_.size()) - 1;
  }

  const Expr& expr_;
  const Shape& space_;
  const std::vector<TileOperand>& inputs_;
  const std::vector<TileOperand>& outputs_;
  TileProgram program_;
  std::vector<Walk> walks_;
  std::vector<Extent> extents_;
  std::vector<int32_t> slots_;  ///< of every node; kNone where it has none
  std::vector<int32_t> outputValues_;
  std::vector<int64_t> tileBytes_;  ///< element size of every tile value
  int32_t firstTile_ = 0;
  int32_t trueSlot_ = kNone;  ///< a constant 1, for copies of uniforms into tiles
};

void Compiler::markUsed() {
  extents_.clear();
  for (const bool used : usedNodes(expr_)) extents_.push_back(used ? Extent::kTile : Extent::kUnused);
}

void Compiler::classify() {
  markUsed();
  int64_t room = kUniformBufferBytes;
  for (size_t i = 0; i < nodes().size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const Node& n = node(id);
    if (extent(id) == Extent::kUnused) continue;
    if (n.prim == Prim::kConst) {
      extent(id) = Extent::kConstant;
      continue;
    }
    bool uniform = n.prim != Prim::kPhilox && program_.positions > 1;
    if (n.prim == Prim::kInput) {
      POPXL_ASSERT(n.index >= 0 && n.index < program_.inputCount, "input {} of {}", n.index,
                   program_.inputCount);
      const auto operand = static_cast<size_t>(n.index);
      POPXL_ASSERT(computeType(inputs_[operand].dtype) == n.type, "input {} of {} read as type {}", n.index,
                   nameOf(inputs_[operand].dtype), static_cast<int>(n.type));
      uniform = n.element >= 0 || (uniform && walks_[operand].isUniform());
    } else {
      const int32_t operands[] = {n.a, n.b, n.c};
      for (int k = 0; k < arity(n.prim); ++k) uniform = uniform && extent(operands[k]) != Extent::kTile;
    }
    const int64_t bytes = kBlock * sizeOf(n.type);
    if (uniform && !isAlias(n)) {
      uniform = room >= bytes;
      POPXL_ASSERT(uniform || n.element < 0, "more than {} bytes of scalar inputs", kUniformBufferBytes);
      if (uniform) room -= bytes;
    }
    if (isAlias(n)) {
      extent(id) = extent(n.a);
    } else if (uniform) {
      extent(id) = Extent::kUniform;
    }
  }
}

/// Appends a block full of `value`; returns its slot.
template <class T>
int32_t Compiler::appendConstant(T value) {
  constexpr size_t kLine = sizeof(TileProgram::CacheLine);
  const auto slot = static_cast<int32_t>(program_.constantOffsets.size());
  program_.constantOffsets.push_back(static_cast<int64_t>(program_.constants.size() * kLine));
  for (size_t line = 0; line < kBlock * sizeof(T) / kLine; ++line) {
    TileProgram::CacheLine& bytes = program_.constants.emplace_back();
    for (size_t i = 0; i < kLine; i += sizeof(T)) std::memcpy(bytes.bytes + i, &value, sizeof(T));
  }
  return slot;
}

int32_t Compiler::addConstant(const Node& n) {
  switch (n.type) {
    case VType::kF32:
      return appendConstant(static_cast<float>(n.number));
    case VType::kF64:
      return appendConstant(n.number);
    case VType::kI32:
    case VType::kU32:
      return appendConstant(static_cast<uint32_t>(n.integer));
    case VType::kI64:
    case VType::kU64:
      break;
  }
  return appendConstant(n.integer);
}

/// Slots of constants and uniforms, which come first.
void Compiler::placeFixed() {
  slots_.assign(nodes().size(), kNone);
  const auto count = static_cast<int32_t>(nodes().size());
  for (int32_t id = 0; id < count; ++id) {
    if (extent(id) == Extent::kConstant && node(id).prim == Prim::kConst) {
      slots_[static_cast<size_t>(id)] = addConstant(node(id));
    }
  }
  trueSlot_ = appendConstant(uint32_t{1});
  const auto constants = static_cast<int32_t>(program_.constantOffsets.size());
  POPXL_ASSERT(constants <= kMaxConstants, "{} constants", constants);
  int64_t offset = 0;
  for (int32_t id = 0; id < count; ++id) {
    if (extent(id) != Extent::kUniform || isAlias(node(id))) continue;
    slots_[static_cast<size_t>(id)] = constants + static_cast<int32_t>(program_.uniformOffsets.size());
    program_.uniformOffsets.push_back(offset);
    offset += kBlock * sizeOf(node(id).type);
  }
  firstTile_ = constants + static_cast<int32_t>(program_.uniformOffsets.size());
}

TileStep Compiler::makeStep(int32_t id) {
  const Node& n = node(id);
  TileStep step;
  const int32_t typed = n.prim == Prim::kSelect ? n.b : n.a;
  step.fn = tileFn(n, node(typed).type);
  step.dst = slotOf(slots_[static_cast<size_t>(id)]);
  step.stream = static_cast<uint32_t>(n.index);
  const int32_t operands[] = {n.a, n.b, n.c};
  uint32_t* slots[] = {&step.a, &step.b, &step.c};
  uint32_t* steps[] = {&step.stepA, &step.stepB, &step.stepC};
  for (int i = 0; i < arity(n.prim); ++i) {
    const int32_t operand = root(operands[i]);
    *slots[i] = slotOf(slots_[static_cast<size_t>(operand)]);
    *steps[i] = extent(operand) == Extent::kTile ? kBlock : 0;
  }
  return step;
}

void Compiler::addLoad(int32_t id) {
  const Node& n = node(id);
  const auto operand = static_cast<size_t>(n.index);
  const DType dtype = inputs_[operand].dtype;
  const int32_t value = newTileValue(sizeOf(n.type));
  slots_[static_cast<size_t>(id)] = value;
  program_.body.push_back({.step = {}, .load = static_cast<int32_t>(program_.loads.size())});
  program_.loads.push_back({.operand = n.index,
                            .slot = slotOf(value),
                            .fn = loadFn(dtype),
                            .walk = walks_[operand],
                            .elementBytes = sizeOf(dtype),
                            .valueBytes = sizeOf(n.type),
                            .inPlace = isComputeStorage(dtype),
                            .once = false});
}

void Compiler::emit(int32_t id) {
  const Node& n = node(id);
  if (extent(id) == Extent::kUnused || n.prim == Prim::kConst || isAlias(n)) return;
  if (extent(id) == Extent::kUniform) {
    if (n.prim != Prim::kInput) return program_.prologue.push_back(makeStep(id));
    const DType dtype = inputs_[static_cast<size_t>(n.index)].dtype;
    return program_.uniformLoads.push_back({.operand = n.index,
                                            .element = std::max<int64_t>(n.element, 0),
                                            .slot = slotOf(slots_[static_cast<size_t>(id)]),
                                            .fn = loadFn(dtype),
                                            .elementBytes = sizeOf(dtype)});
  }
  // Inputs are loaded just before their first use.
  const int32_t operands[] = {n.a, n.b, n.c};
  for (int i = 0; i < arity(n.prim); ++i) {
    const int32_t operand = root(operands[i]);
    if (node(operand).prim == Prim::kInput && slots_[static_cast<size_t>(operand)] == kNone) addLoad(operand);
  }
  if (n.prim == Prim::kInput) return;
  slots_[static_cast<size_t>(id)] = newTileValue(sizeOf(n.type));
  program_.body.push_back({.step = makeStep(id), .load = kNone});
}

/// The slot of an output's tile; values that are the same everywhere are spread into one.
int32_t Compiler::tileValue(int32_t id) {
  const int32_t value = root(id);
  int32_t& slot = slots_[static_cast<size_t>(value)];
  if (extent(value) == Extent::kTile) {
    if (slot == kNone) addLoad(value);
    return slot;
  }
  TileStep copy;
  copy.fn = selectFn(node(value).type);
  copy.a = slotOf(trueSlot_);
  copy.b = copy.c = slotOf(slot);
  copy.stepA = copy.stepB = copy.stepC = 0;
  const int32_t spread = newTileValue(sizeOf(node(value).type));
  copy.dst = slotOf(spread);
  program_.body.push_back({.step = copy, .load = kNone});
  return spread;
}

void Compiler::addStore(size_t i) {
  const DType dtype = outputs_[i].dtype;
  const Node& n = node(expr_.outputs()[i]);
  POPXL_ASSERT(computeType(dtype) == n.type, "output {} of type {} stored as {}", i, static_cast<int>(n.type),
               nameOf(dtype));
  TileProgram::Store store{.slot = slotOf(outputValues_[i]),
                           .fn = storeFn(dtype),
                           .walk = Walk(space_, outputs_[i].strides),
                           .elementBytes = sizeOf(dtype),
                           .valueBytes = sizeOf(n.type),
                           .inPlace = false,
                           .readLater = {}};
  const auto& body = program_.body;
  const auto made = std::find_if(body.begin(), body.end(), [&](const TileProgram::Instruction& instruction) {
    return instruction.load < 0 && instruction.step.dst == store.slot;
  });
  const bool taken = std::any_of(program_.stores.begin(), program_.stores.end(),
                                 [&](const TileProgram::Store& other) { return other.slot == store.slot; });
  store.inPlace =
      isComputeStorage(dtype) && store.walk.isContiguous() && made != body.end() && !taken && i < 64;
  if (store.inPlace) {
    for (size_t k = 0; k < program_.loads.size(); ++k) {
      const TileProgram::Load& load = program_.loads[k];
      const bool later = std::any_of(made + 1, body.end(), [&](const TileProgram::Instruction& later) {
        const TileStep& s = later.step;
        return later.load == static_cast<int32_t>(k) ||
               (later.load < 0 && (s.a == load.slot || s.b == load.slot || s.c == load.slot));
      });
      if (later) store.readLater.push_back(static_cast<int32_t>(k));
    }
  }
  program_.stores.push_back(std::move(store));
}

/// Index of the last body instruction that reads each tile value; kNever for values that live on.
std::vector<int32_t> Compiler::lastUses() const {
  std::vector<int32_t> last(tileBytes_.size(), kNone);
  const auto use = [&](uint32_t slot, int32_t at) {
    const auto value = static_cast<int32_t>(slot) - firstTile_;
    if (value >= 0) last[static_cast<size_t>(value)] = at;
  };
  for (size_t i = 0; i < program_.body.size(); ++i) {
    const TileProgram::Instruction& instruction = program_.body[i];
    if (instruction.load >= 0) continue;
    const TileStep& s = instruction.step;
    const uint32_t operands[] = {s.a, s.b, s.c};
    for (const uint32_t operand : operands) use(operand, static_cast<int32_t>(i));
  }
  for (const int32_t value : outputValues_) use(slotOf(value), kNever);
  for (const TileProgram::Load& load : program_.loads) {
    if (load.once) use(load.slot, kNever);
  }
  return last;
}

/// Linear scan over the body. A result may take the register of an operand of its width that dies there.
void Compiler::assignRegisters() {
  // Several outputs, one of them an input as it is: another store could reach that memory first.
  for (const int32_t value : outputValues_) {
    for (TileProgram::Load& load : program_.loads) {
      if (load.slot == slotOf(value) && outputs_.size() > 1) load.inPlace = false;
    }
  }
  // A small pattern that repeats is loaded once a chunk, if tiles are a multiple of its length.
  for (TileProgram::Load& load : program_.loads) {
    const int64_t period = load.walk.period();
    load.once = period > 0 && std::lcm(period, kBlock) <= 512 && program_.positions >= 1024;
  }
  const std::vector<int32_t> last = lastUses();
  program_.registers.assign(tileBytes_.size(), 0);
  std::vector<int32_t> free;
  const auto take = [&] {
    if (free.empty()) return program_.registerCount++;
    const int32_t r = free.back();
    free.pop_back();
    return r;
  };
  // What stays from tile to tile shares its register with nothing, not even what is over before it is loaded.
  for (const TileProgram::Load& load : program_.loads) {
    if (load.once)
      program_.registers[static_cast<size_t>(static_cast<int32_t>(load.slot) - firstTile_)] = take();
  }
  for (size_t i = 0; i < program_.body.size(); ++i) {
    const TileProgram::Instruction& instruction = program_.body[i];
    if (instruction.load >= 0 && program_.loads[static_cast<size_t>(instruction.load)].once) continue;
    const uint32_t result = instruction.load >= 0 ? program_.loads[static_cast<size_t>(instruction.load)].slot
                                                  : instruction.step.dst;
    const auto value = static_cast<size_t>(static_cast<int32_t>(result) - firstTile_);
    std::vector<int32_t> dying;
    bool sameWidth = true;
    if (instruction.load < 0) {
      const TileStep& s = instruction.step;
      for (const uint32_t operand : {s.a, s.b, s.c}) {
        const int32_t v = static_cast<int32_t>(operand) - firstTile_;
        if (v < 0 || last[static_cast<size_t>(v)] != static_cast<int32_t>(i)) continue;
        if (std::find(dying.begin(), dying.end(), v) == dying.end()) dying.push_back(v);
        sameWidth = sameWidth && tileBytes_[static_cast<size_t>(v)] == tileBytes_[value];
      }
    }
    const auto release = [&] {
      for (const int32_t v : dying) free.push_back(program_.registers[static_cast<size_t>(v)]);
    };
    if (sameWidth) release();
    program_.registers[value] = take();
    if (!sameWidth) release();
    if (last[value] == kNone) free.push_back(program_.registers[value]);
  }
}

void Compiler::chooseTile() {
  const int64_t width = tileBytes_.empty() ? 4 : *std::max_element(tileBytes_.begin(), tileBytes_.end());
  const int64_t perPosition = std::max(program_.registerCount, 1) * width;
  POPXL_ASSERT(program_.slotCount() <= static_cast<size_t>(kMaxSlots), "{} values", program_.slotCount());
  POPXL_ASSERT(perPosition * kBlock <= kRegisterBytes, "{} live values", program_.registerCount);
  // One step in place needs no registers to speak of: the longer, the better.
  const auto steps = std::count_if(program_.body.begin(), program_.body.end(),
                                   [](const TileProgram::Instruction& i) { return i.load < 0; });
  const int64_t wanted = steps <= 1 ? 4096 : 512;
  const int64_t budget = steps <= 1 ? kRegisterBytes : 24 * 1024;
  int64_t tile = std::max(kBlock, std::min(wanted, budget / perPosition) / kBlock * kBlock);
  int64_t unit = kBlock;
  for (TileProgram::Load& load : program_.loads) {
    if (!load.once) continue;
    const int64_t both = std::lcm(unit, load.walk.period());
    load.once = both <= tile;
    if (load.once) unit = both;
  }
  tile = tile / unit * unit;
  // Tiles that divide the rows of a broadcast operand can read it in place.
  for (const TileProgram::Load& load : program_.loads) {
    const int64_t inner = load.walk.inner();
    if (unit != kBlock || inner == program_.positions || inner < tile) continue;
    for (int64_t divisor = tile; divisor >= tile / 2; divisor -= kBlock) {
      if (inner % divisor != 0) continue;
      tile = divisor;
      break;
    }
    break;
  }
  program_.tile = tile;
  program_.registerBytes = tile * width;
}

}  // namespace

Strides inputStrides(const Expr& expr, size_t index, const Layout& layout, const Shape& space) {
  const bool everywhere = std::any_of(expr.nodes().begin(), expr.nodes().end(), [&](const Node& n) {
    return n.prim == Prim::kInput && n.index == static_cast<int32_t>(index) && n.element < 0;
  });
  return everywhere ? broadcastStrides(layout.shape, layout.strides, space) : Strides(space.size(), 0);
}

TileProgram compileTiles(const Expr& expr, const Shape& space, const std::vector<TileOperand>& inputs,
                         const std::vector<TileOperand>& outputs) {
  POPXL_ASSERT(outputs.empty() || outputs.size() == expr.outputs().size(), "{} outputs for {} results",
               outputs.size(), expr.outputs().size());
  return Compiler(expr, space, inputs, outputs).run();
}

}  // namespace popxl::kernels
