#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ops/ops.h"

namespace popxl {
namespace {

using ir::Arity;
using ir::OpDef;
using ir::Structure;

bool isIdentifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

/// Capital at the beginning unless it is a formula or a code word, one full stop at the end, one line.
void expectSentence(std::string_view doc, const std::string& where) {
  ASSERT_FALSE(doc.empty()) << where;
  EXPECT_EQ(doc.back(), '.') << where;
  EXPECT_EQ(doc.find('\n'), std::string_view::npos) << where;
  EXPECT_EQ(doc.find(". "), std::string_view::npos) << where << " is more than one sentence";
}

TEST(OpTable, NamesAndTypesAreUnique) {
  std::set<std::string> names, types;
  for (const OpDef& def : ops::table().all()) {
    EXPECT_TRUE(isIdentifier(def.name)) << def.name;
    EXPECT_TRUE(isIdentifier(def.type)) << def.name;
    EXPECT_TRUE(names.insert(std::string(def.name)).second) << def.name;
    EXPECT_TRUE(types.insert(std::string(def.type)).second) << def.name << ": " << def.type;
    if (def.inplaceOperand >= 0 && !def.alwaysInplace) {
      EXPECT_TRUE(names.insert(def.inplaceName()).second) << def.name;
      const std::string type =
          def.inplaceType.empty() ? std::string(def.type) + "Inplace" : std::string(def.inplaceType);
      EXPECT_TRUE(types.insert(type).second) << def.name << ": " << type;
    }
  }
}

TEST(OpTable, EveryEntryIsDocumented) {
  for (const OpDef& def : ops::table().all()) {
    const std::string name(def.name);
    expectSentence(def.doc, name);
    for (const auto& operand : def.operands) {
      if (!operand.doc.empty()) {
        EXPECT_EQ(operand.doc.back(), '.') << name << " " << operand.name;
      }
    }
    for (const auto& attr : def.attrs) {
      ASSERT_FALSE(attr.doc.empty()) << name << " " << attr.name;
      EXPECT_EQ(attr.doc.back(), '.') << name << " " << attr.name;
    }
  }
}

TEST(OpTable, OperandsAndAttributesHaveDistinctNames) {
  for (const OpDef& def : ops::table().all()) {
    std::set<std::string> names;
    for (const auto& operand : def.operands) {
      EXPECT_TRUE(isIdentifier(operand.name)) << def.name;
      EXPECT_TRUE(names.insert(std::string(operand.name)).second) << def.name << " " << operand.name;
      EXPECT_NE(operand.dtypes, 0u) << def.name << " " << operand.name;
    }
    for (const auto& attr : def.attrs) {
      EXPECT_TRUE(isIdentifier(attr.name)) << def.name;
      EXPECT_TRUE(names.insert(std::string(attr.name)).second) << def.name << " " << attr.name;
    }
    for (const auto& result : def.results) EXPECT_TRUE(isIdentifier(result.name)) << def.name;
  }
}

TEST(OpTable, OnlyTheLastOperandAndTheOnlyResultAreVariadic) {
  for (const OpDef& def : ops::table().all()) {
    for (size_t i = 0; i + 1 < def.operands.size(); ++i) {
      EXPECT_NE(def.operands[i].arity, Arity::kVariadic) << def.name;
      if (def.operands[i].arity == Arity::kOptional) {
        EXPECT_NE(def.operands[i + 1].arity, Arity::kOne)
            << def.name << ": a required operand after an optional one";
      }
    }
    for (const auto& result : def.results) {
      if (result.variadic) {
        EXPECT_EQ(def.results.size(), 1u) << def.name;
      }
    }
  }
}

bool hasType(const ir::Attr& value, ir::AttrType type) {
  return value.index() ==
         static_cast<size_t>(type) + 1;  // alternatives are in the order of AttrType, after monostate
}

TEST(OpTable, DefaultsHaveTheTypeOfTheirAttribute) {
  for (const OpDef& def : ops::table().all()) {
    for (const auto& attr : def.attrs) {
      if (std::holds_alternative<std::monostate>(attr.fallback)) continue;
      EXPECT_TRUE(hasType(attr.fallback, attr.type)) << def.name << " " << attr.name;
      EXPECT_FALSE(attr.optional) << def.name << " " << attr.name << " has a default, so it is never absent";
    }
  }
}

TEST(OpTable, EveryOpRunsInExactlyOneWay) {
  for (const OpDef& def : ops::table().all()) {
    const int ways = (def.expr != nullptr) + (def.view != nullptr) + (def.kernel != nullptr) +
                     (def.structure != Structure::kNone);
    EXPECT_EQ(ways, 1) << def.name;
    EXPECT_EQ(def.reference != nullptr, def.kernel != nullptr)
        << def.name << ": a kernel has a reference to be compared with, anything else is its own";
    const bool collective = def.structure == Structure::kCollective;
    EXPECT_EQ(def.collective != nullptr, collective) << def.name;
    EXPECT_EQ(def.collectiveReference != nullptr, collective) << def.name;
    EXPECT_NE(def.infer, nullptr) << def.name;
    EXPECT_FALSE(def.reducesAxes && def.reducesToOutput) << def.name;
    if (def.reducesAxes || def.reducesToOutput) {
      EXPECT_NE(def.expr, nullptr) << def.name;
    }
    if (def.reducesAxes) {
      EXPECT_GE(def.attrIndex("axes"), 0) << def.name;
      EXPECT_GE(def.attrIndex("keepdims"), 0) << def.name;
    }
    if (def.stridedInputs) {
      EXPECT_NE(def.kernel, nullptr) << def.name;
    }
  }
}

TEST(OpTable, InplaceUseNamesAnOperand) {
  for (const OpDef& def : ops::table().all()) {
    EXPECT_LT(def.inplaceOperand, static_cast<int32_t>(def.operands.size())) << def.name;
    if (def.alwaysInplace) {
      EXPECT_GE(def.inplaceOperand, 0) << def.name;
      EXPECT_TRUE(def.inplaceModifies) << def.name;
      EXPECT_TRUE(def.inplaceType.empty()) << def.name;
    }
    if (!def.inplaceType.empty()) {
      EXPECT_GE(def.inplaceOperand, 0) << def.name;
    }
    if (def.view != nullptr && def.inplaceOperand >= 0) {
      EXPECT_FALSE(def.inplaceModifies) << def.name;
    }
    for (const int32_t operand : def.alsoModifies) {
      EXPECT_GE(operand, 0) << def.name;
      EXPECT_LT(operand, static_cast<int32_t>(def.operands.size())) << def.name;
    }
    EXPECT_EQ(def.update != nullptr, !def.alsoModifies.empty() && def.expr != nullptr) << def.name;
  }
}

TEST(OpTable, GradientsStopOnlyWhereTheEntrySaysSo) {
  for (const OpDef& def : ops::table().all()) {
    if (def.stopsGradient) {
      EXPECT_EQ(def.grad, nullptr) << def.name;
    }
    if (def.visibility == ir::Visibility::kInternal || def.structure != Structure::kNone) continue;
    if (def.alwaysInplace || !def.alsoModifies.empty())
      continue;                                                   // a graph that writes is not differentiated
    const bool fused = def.name == "nll_loss_with_softmax_grad";  // gives its gradient itself
    const bool float8 = def.type == "Pow2ScaleThenCast" || def.type == "CastThenPow2Scale";  // an error
    EXPECT_TRUE(def.grad != nullptr || def.stopsGradient || fused || float8) << def.name;
  }
}

TEST(OpTable, FindsOpsByBothNames) {
  bool inplace = false;
  ASSERT_NE(ops::table().find("add", &inplace), nullptr);
  EXPECT_FALSE(inplace);
  EXPECT_EQ(ops::table().find("add_", &inplace), &ops::def("add"));
  EXPECT_TRUE(inplace);
  EXPECT_EQ(ops::table().find("accumulate_", &inplace), &ops::def("accumulate_"));
  EXPECT_FALSE(inplace);
  EXPECT_EQ(ops::table().find("accumulate"), nullptr);
  EXPECT_EQ(ops::table().find("no_such_op"), nullptr);
}

/// Type names that programs ask for.
TEST(OpTable, HasTheCompatibleTypeNames) {
  const std::pair<const char*, const char*> expected[] = {
      {"maximum", "Max"},
      {"logical_and", "And"},
      {"sum", "ReduceSum"},
      {"add_n", "Sum"},
      {"repeat", "Loop"},
      {"conditional", "If"},
      {"nll_loss", "Nll"},
      {"negate", "Neg"},
      {"onehot", "OneHot"},
      {"matmul", "MatMul"},
      {"add_arg0_grad", "AddArg0Grad"},
      {"sub_arg1_grad", "SubtractArg1Grad"},
      {"mul_arg1_grad", "MulArg1Grad"},
      {"group_norm", "GroupNormalization"},
      {"group_norm_grad", "GroupNormalizationGrad"},
      {"nll_loss_with_softmax_grad", "NlllWithSoftmaxGradDirect"},
      {"accumulate_", "Accumulate"},
      {"tied_gather", "PopartTiedGather"}};
  for (const auto& [name, type] : expected) EXPECT_EQ(ops::def(name).type, type) << name;
  EXPECT_EQ(ops::def("isnan").className, "IsNaN");
  EXPECT_EQ(ops::def("scaled_add").inplaceType, "ScaledAddLhsInplace");
}

}  // namespace
}  // namespace popxl
