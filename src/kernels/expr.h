#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "popxl/dtype.h"

namespace popxl::kernels {

/// Type in which an elementwise value is computed. Storage types map onto it: float8, float16 and float32
/// compute in kF32; int8..int32 in kI32; bool (0 or 1), uint8..uint32 in kU32.
enum class VType : uint8_t { kF32, kF64, kI32, kU32, kI64, kU64 };
VType computeType(DType t);

/// The primitives over which every elementwise op is written. Operands a, b, c are node ids.
enum class Prim : uint8_t {
  kInput,   ///< operand `index`; when element >= 0 that one element of it, the same for every position
  kConst,   ///< `number`
  kPhilox,  ///< kU32 random bits of the linear position: philox(a, b, position, stream index) of philox.h; a,
            ///< b: kU32
  kAdd,
  kSub,
  kMul,
  kDiv,  ///< integer division truncates; division by zero gives 0 for integers
  kMin,
  kMax,  ///< NaN if either operand is NaN, as NumPy's minimum and maximum; sign of equal zeros open
  kMod,  ///< C fmod / truncated remainder; integer modulo 0 gives 0
  kPow,  ///< integers by repeated multiplication; negative exponents truncate 1 / x^n (0 for x = 0)
  kNeg,
  kAbs,
  kSign,  ///< sign of zero is +0, of NaN NaN
  kSqrt,
  kExp,
  kLog,
  kTanh,
  kErf,
  kSin,
  kCos,  ///< floats only
  kFloor,
  kCeil,
  kTrunc,
  kRoundEven,  ///< integers unchanged
  kLt,
  kLe,
  kEq,
  kNe,  ///< kU32 0 or 1
  kIsNan,
  kIsInf,   ///< kU32 0 or 1
  kSelect,  ///< a (kU32) ? b : c
  kAnd,
  kOr,
  kXor,
  kNot,  ///< bitwise on integers; kNot is bitwise complement
  kShl,
  kShr,      ///< by b, on unsigned; a shift by the width or more gives 0
  kConvert,  ///< to this node's type, as C converts (float to integer saturates, NaN gives 0)
  kBitcast,  ///< same width
  kRoundTo,  ///< rounds a value in compute type to storage type `dtype` and back; float8 saturates
};

struct Node {
  Prim prim;
  VType type;
  DType dtype = DType::kFloat32;  ///< kRoundTo
  int32_t a = -1, b = -1, c = -1;
  int32_t index = 0;     ///< kInput: operand; kPhilox: which of the independent streams
  int64_t element = -1;  ///< kInput
  double number = 0;     ///< kConst of a float type
  int64_t integer = 0;   ///< kConst of an integer type
};

/// Number of operands (0 to 3) of a primitive.
int arity(Prim p);
bool isFloatType(VType t);
bool isUnsignedType(VType t);
int64_t sizeOf(VType t);

/// A pure function of some inputs at one position, as a list of nodes in dependence order.
class Expr {
 public:
  /// Appends a node, or returns an equal one: nodes that exist are shared, operations on constants are folded
  /// and identities removed where that changes no bit. Wrong operands or types are an assertion.
  int32_t add(const Node& node);
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<int32_t>& outputs() { return outputs_; }
  const std::vector<int32_t>& outputs() const { return outputs_; }

 private:
  int32_t append(const Node& node);

  std::vector<Node> nodes_;
  std::vector<int32_t> outputs_;
  std::unordered_multimap<uint64_t, int32_t> known_;  ///< hash of a node to its id
};

/// A symbolic value: arithmetic on it appends nodes. The op table writes elementwise ops with these. Mixed
/// operand types are an assertion; a C++ number takes the other operand's type.
struct Val {
  Expr* expr = nullptr;
  int32_t id = -1;

  VType type() const { return expr->nodes()[static_cast<size_t>(id)].type; }
  Val constant(double number) const;  ///< of this value's type
  Val convert(VType to) const;
  Val bitcast(VType to) const;
};

/// Whether the outputs need it, of every node.
std::vector<bool> usedNodes(const Expr& expr);

Val input(Expr& e, int32_t operand, VType type, int64_t element = -1);
Val constant(Expr& e, VType type, double number);
Val unary(Prim p, Val a);
Val binary(Prim p, Val a, Val b);
Val select(Val condition, Val then, Val otherwise);
Val roundTo(Val a, DType storage);
Val philox(Val seed0, Val seed1, int32_t stream);  ///< both kU32

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator-(Val a);
Val operator<(Val a, Val b);
Val operator<=(Val a, Val b);
Val operator>(Val a, Val b);
Val operator>=(Val a, Val b);
Val eq(Val a, Val b);
Val operator+(Val a, double b);
Val operator-(Val a, double b);
Val operator*(Val a, double b);
Val operator/(Val a, double b);
Val operator+(double a, Val b);
Val operator-(double a, Val b);
Val operator*(double a, Val b);
Val operator/(double a, Val b);
Val operator<(Val a, double b);
Val operator>(Val a, double b);
Val operator>=(Val a, double b);
Val operator<=(Val a, double b);
Val min(Val a, Val b);
Val max(Val a, Val b);
Val exp(Val a);
Val log(Val a);
Val sqrt(Val a);
Val tanh(Val a);
Val erf(Val a);
Val abs(Val a);

}  // namespace popxl::kernels
