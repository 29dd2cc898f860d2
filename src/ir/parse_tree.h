#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/lexer.h"
#include "ir/op_def.h"
#include "ir/parse.h"

namespace popxl::ir {

// What a text says, before any graph is made. `at` is the offset in the text, for errors.

struct NameText {
  std::string name;
  size_t at = 0;
};

struct TypeText {
  TensorType type;
  size_t at = 0;
};

struct StreamText {
  NameText name;
  TensorType type;
  StreamDirection direction = StreamDirection::kHostToDevice;
  Loc loc;
};

struct DeclarationText {
  NameText name;
  TensorKind kind = TensorKind::kVariable;
  TensorType type;
  VariableSettings settings;
  std::shared_ptr<HostData> data;
  Loc loc;
};

struct InputText {
  NameText name;
  TensorType type;
  bool byRef = false;
  Loc loc;
};

struct OpText {
  size_t at = 0;
  int64_t id = 0;
  const OpDef* def = nullptr;
  bool inplace = false;
  std::vector<NameText> results;
  std::vector<std::optional<NameText>> operands;
  std::vector<Attr> attrs;       ///< in table order, graphs left out
  std::vector<int32_t> absent;   ///< attributes that are said to be `none`
  std::vector<NameText> graphs;  ///< for the attributes of that type, in table order
  std::vector<int32_t> modified;
  std::vector<NameText> after;  ///< a tensor's name, or "#id"
  std::vector<TypeText> types;  ///< empty: not said
  Settings settings{.ipu = 0};
  Loc loc;
};

struct GraphText {
  NameText id;
  std::vector<InputText> inputs;
  std::vector<NameText> outputs;
  bool differentiable = true;
  std::vector<DeclarationText> declarations;
  std::vector<OpText> ops;
};

struct IrText {
  int64_t hostTransfers = 1;
  SessionOptions options;
  std::optional<Ir::Counters> counters;
  std::vector<StreamText> streams;
  std::vector<RemoteBuffer> remoteBuffers;
  std::vector<GraphText> graphs;
};

/// The text as a tree; ops and their attributes are looked up in the table.
IrText parseTree(Lexer& lexer, const OpTable& table, const ParseOptions& options);
/// The program that the tree says. `lexer` only points at places.
std::shared_ptr<Ir> buildTree(const IrText& tree, const OpTable& table, const Lexer& lexer);

}  // namespace popxl::ir
