// popxl-gen OUTDIR: writes from the op table what would otherwise be a second list of ops.
//   include/popxl/ops.h, src/ops_generated.cpp   the public C++ functions
//   python/popxl/ops/_generated.py               the Python functions that need no logic of their own
//   docs/ops.md                                  the reference page
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace popxl::gen {
namespace {

using ir::Arity;
using ir::Attr;
using ir::AttrDef;
using ir::AttrType;
using ir::OpDef;
using ir::OperandDef;
using ir::Visibility;

constexpr size_t kColumns = 110;

bool isOptional(const AttrDef& a) { return a.optional && std::holds_alternative<std::monostate>(a.fallback); }
bool isRequired(const AttrDef& a) {
  return !a.optional && std::holds_alternative<std::monostate>(a.fallback);
}

/// The names under which an op is called, each with whether that is its in-place use.
std::vector<std::pair<std::string, bool>> namesOf(const OpDef& def) {
  std::vector<std::pair<std::string, bool>> names = {{std::string(def.name), false}};
  if (def.inplaceOperand >= 0 && !def.alwaysInplace) names.emplace_back(def.inplaceName(), true);
  return names;
}

bool hasOneResult(const OpDef& def) { return def.results.size() == 1 && !def.results[0].variadic; }

/// What is known of the results: what the entry says, or what follows from its inference.
std::string returnsOf(const OpDef& def) {
  if (!hasOneResult(def)) {
    std::string out = "The results.";
    for (const ir::ResultDef& result : def.results) {
      if (!result.doc.empty()) out += fmt::format(" `{}`: {}", result.name, result.doc);
    }
    return out;
  }
  if (!def.results[0].doc.empty()) return std::string(def.results[0].doc);
  if (def.operands.empty()) return "The result.";
  const std::string_view first = def.operands[0].name;
  if (def.infer == ops::broadcastAll) return "A tensor of the shapes broadcast, of the operands' dtype.";
  if (def.infer == ops::broadcastToBool) return "A bool tensor of the shapes broadcast.";
  if (def.infer == ops::sameShapeBool) return fmt::format("A bool tensor of the shape of `{}`.", first);
  if (def.reducesAxes) return fmt::format("The reduced tensor, of the dtype of `{}`.", first);
  return fmt::format("A tensor of the shape and dtype of `{}`.", first);
}

std::string docOf(const OpDef& def, bool inplace) {
  std::string doc(def.doc);
  if (!inplace || def.inplaceOperand < 0) return doc;
  const std::string_view target = def.operands[static_cast<size_t>(def.inplaceOperand)].name;
  const char* form = " The result is the memory of `{}`, not a copy.";
  if (def.inplaceModifies) form = " The result takes over the memory of `{}`.";
  if (def.inplaceCopies) form = " The result counts as the memory of `{}`.";
  return doc + fmt::format(fmt::runtime(form), target);
}

std::string upperFirst(std::string_view text) {
  std::string out(text);
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(out[0]));
  return out;
}

/// Words of `text` in lines that start with `indent` and fit the column limit; the first one starts with
/// `first`.
std::string wrap(const std::string& first, const std::string& indent, std::string_view text) {
  std::string out, line = first;
  bool empty = true;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = indent;
      empty = true;
    }
    line += (empty ? "" : " ") + std::string(word);
    empty = false;
    at = end + 1;
  }
  return out + line + "\n";
}

/// `head` + parameters + `tail`, broken after commas where it does not fit.
std::string wrapList(const std::string& head, const std::vector<std::string>& items,
                     const std::string& tail) {
  std::string out, line = head;
  const std::string indent(head.size(), ' ');
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : tail);
    const bool first = line == head || line == indent;
    if (!first && line.size() + 1 + item.size() > kColumns) {
      out += line + "\n";
      line = indent + item;
    } else {
      line += (first ? "" : " ") + item;
    }
  }
  if (items.empty()) line += tail;
  return out + line;
}

std::string dtypeList(ir::DTypes set) {
  if (set == ir::kAny) return "any";
  struct Group {
    ir::DTypes bits;
    const char* name;
  };
  std::string out;
  const auto add = [&](std::string_view name) { out += (out.empty() ? "" : ", ") + std::string(name); };
  for (const Group& group : {Group{ir::kFloats, "floats"}, {ir::kInts, "ints"}, {ir::kFloat8s, "float8"}}) {
    if ((set & group.bits) != group.bits) continue;
    add(group.name);
    set &= ~group.bits;
  }
  for (int i = 0; i < kNumDTypes; ++i) {
    if ((set & (ir::DTypes{1} << i)) != 0) add(nameOf(static_cast<DType>(i)));
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// --- C++

std::string cppType(AttrType type) {
  switch (type) {
    case AttrType::kInt:
      return "int64_t";
    case AttrType::kFloat:
      return "double";
    case AttrType::kBool:
      return "bool";
    case AttrType::kString:
      return "std::string";
    case AttrType::kInts:
      return "std::vector<int64_t>";
    case AttrType::kFloats:
      return "std::vector<double>";
    case AttrType::kDType:
      return "DType";
    case AttrType::kGraph:
      return "Graph";
  }
  return "";
}

std::string cppLiteral(const Attr& value) {
  if (const auto* v = std::get_if<int64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<std::string>(&value)) return quoted(*v);
  if (const auto* v = std::get_if<DType>(&value))
    return fmt::format("dtypeFromName({})", quoted(std::string(nameOf(*v))));
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
    return fmt::format("{{{}}}", fmt::join(*v, ", "));
  if (const auto* v = std::get_if<std::vector<double>>(&value))
    return fmt::format("{{{}}}", fmt::join(*v, ", "));
  const double v = std::get<double>(value);
  if (std::isinf(v))
    return v > 0 ? "std::numeric_limits<double>::infinity()" : "-std::numeric_limits<double>::infinity()";
  return fmt::format("{}", v);
}

std::string cppResult(const OpDef& def) {
  if (def.results.empty()) return "void";
  if (def.results[0].variadic) return "std::vector<Tensor>";
  if (def.results.size() == 1) return "Tensor";
  return fmt::format("std::array<Tensor, {}>", def.results.size());
}

/// Parameters that must be given come first, each kind in table order. Defaults are written in the header
/// only.
std::vector<std::string> cppParameters(const OpDef& def, bool defaults) {
  std::vector<std::string> required, rest;
  for (const OperandDef& operand : def.operands) {
    switch (operand.arity) {
      case Arity::kOne:
        required.push_back(fmt::format("const Tensor& {}", operand.name));
        break;
      case Arity::kVariadic:
        required.push_back(fmt::format("const std::vector<Tensor>& {}", operand.name));
        break;
      case Arity::kOptional:
        rest.push_back(fmt::format("const std::optional<Tensor>& {}{}", operand.name,
                                   defaults ? " = std::nullopt" : ""));
    }
  }
  for (const AttrDef& attr : def.attrs) {
    const bool plain = attr.type != AttrType::kString && attr.type != AttrType::kInts &&
                       attr.type != AttrType::kFloats && attr.type != AttrType::kGraph && !isOptional(attr);
    std::string type = cppType(attr.type);
    if (isOptional(attr)) type = fmt::format("std::optional<{}>", type);
    if (!plain) type = fmt::format("const {}&", type);
    if (isRequired(attr)) {
      required.push_back(fmt::format("{} {}", type, attr.name));
    } else {
      const std::string value = isOptional(attr) ? "std::nullopt" : cppLiteral(attr.fallback);
      rest.push_back(fmt::format("{} {}{}", type, attr.name, defaults ? " = " + value : ""));
    }
  }
  required.insert(required.end(), rest.begin(), rest.end());
  required.push_back(std::string("std::source_location where") +
                     (defaults ? " = std::source_location::current()" : ""));
  return required;
}

std::string cppDeclaration(const OpDef& def, const std::string& name, bool inplace) {
  std::string out = wrap("/// ", "/// ", docOf(def, inplace));
  for (const OperandDef& operand : def.operands) {
    std::string text = fmt::format("`{}`: {}", operand.name, dtypeList(operand.dtypes));
    if (!operand.doc.empty()) text += fmt::format(". {}", upperFirst(operand.doc));
    out += wrap("/// - ", "///   ", text);
  }
  for (const AttrDef& attr : def.attrs)
    out += wrap("/// - ", "///   ", fmt::format("`{}`: {}", attr.name, attr.doc));
  return out + wrapList(fmt::format("{} {}(", cppResult(def), name), cppParameters(def, true), ");") + "\n";
}

std::string cppDefinition(const OpDef& def, const std::string& name, bool inplace) {
  std::string out =
      wrapList(fmt::format("{} {}(", cppResult(def), name), cppParameters(def, false), ") {") + "\n";
  out += "  std::vector<api::Operand> operands;\n";
  for (const OperandDef& operand : def.operands)
    out += fmt::format("  api::addOperand(operands, {});\n", operand.name);
  out += "  std::vector<ir::Attr> attrs;\n";
  for (const AttrDef& attr : def.attrs)
    out += fmt::format("  attrs.push_back(api::toAttr({}));\n", attr.name);
  const std::string make = fmt::format("api::makeOp({}, std::move(operands), std::move(attrs), {}, where)",
                                       quoted(std::string(def.name)), inplace);
  if (def.results.empty()) return out + "  " + make + ";\n}\n";
  if (def.results[0].variadic) return out + "  return " + make + ";\n}\n";
  if (def.results.size() == 1) return out + "  return " + make + "[0];\n}\n";
  std::vector<std::string> parts;
  for (size_t i = 0; i < def.results.size(); ++i) parts.push_back(fmt::format("made[{}]", i));
  return out + fmt::format("  const std::vector<Tensor> made = {};\n  return {{{}}};\n}}\n", make,
                           fmt::join(parts, ", "));
}

constexpr const char* kNotice = "Written by popxl-gen from the op table; edit src/ops instead.";

std::string cppHeader(const std::vector<OpDef>& defs) {
  std::string out = fmt::format("#pragma once\n\n// {}\n\n", kNotice);
  for (const char* header :
       {"array", "cstdint", "limits", "optional", "source_location", "string", "vector"}) {
    out += fmt::format("#include <{}>\n", header);
  }
  out += "\n#include <popxl/dtype.h>\n#include <popxl/graph.h>\n#include <popxl/tensor.h>\n";
  out +=
      "\n/// The ops of a program: each adds one op to the graph that is entered and returns its results.\n";
  out += "namespace popxl::ops {\n";
  for (const OpDef& def : defs) {
    if (def.visibility == Visibility::kInternal) continue;
    for (const auto& [name, inplace] : namesOf(def)) out += "\n" + cppDeclaration(def, name, inplace);
  }
  return out + "\n}  // namespace popxl::ops\n";
}

std::string cppSource(const std::vector<OpDef>& defs) {
  std::string out = fmt::format("// {}\n#include <popxl/ops.h>\n\n#include \"api/make_op.h\"\n\n", kNotice);
  out += "namespace popxl::ops {\n";
  for (const OpDef& def : defs) {
    if (def.visibility == Visibility::kInternal) continue;
    for (const auto& [name, inplace] : namesOf(def)) out += "\n" + cppDefinition(def, name, inplace);
  }
  return out + "\n}  // namespace popxl::ops\n";
}

// --- Python

std::string pythonType(AttrType type) {
  switch (type) {
    case AttrType::kInt:
      return "int";
    case AttrType::kFloat:
      return "float";
    case AttrType::kBool:
      return "bool";
    case AttrType::kString:
      return "str";
    case AttrType::kInts:
      return "Iterable[int]";
    case AttrType::kFloats:
      return "Iterable[float]";
    case AttrType::kDType:
      return "dtype";
    case AttrType::kGraph:
      return "Graph";
  }
  return "";
}

/// The axes of a reduction: programs give one, several or none, and call them `axis`.
bool isReducedAxes(const AttrDef& attr) {
  const auto* fallback = std::get_if<std::vector<int64_t>>(&attr.fallback);
  return attr.name == "axes" && fallback != nullptr && fallback->empty();
}

std::string_view pythonName(const AttrDef& attr) { return isReducedAxes(attr) ? "axis" : attr.name; }

std::string pythonNumber(double v) {
  if (std::isinf(v)) return v > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  const std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string pythonTuple(const std::vector<std::string>& items) {
  return fmt::format("({}{})", fmt::join(items, ", "), items.size() == 1 ? "," : "");
}

std::string pythonLiteral(const Attr& value) {
  if (const auto* v = std::get_if<int64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "True" : "False";
  if (const auto* v = std::get_if<std::string>(&value)) return quoted(*v);
  if (const auto* v = std::get_if<DType>(&value)) return "dtypes." + std::string(nameOf(*v));
  std::vector<std::string> items;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t item : *v) items.push_back(std::to_string(item));
    return pythonTuple(items);
  }
  if (const auto* v = std::get_if<std::vector<double>>(&value)) {
    for (const double item : *v) items.push_back(pythonNumber(item));
    return pythonTuple(items);
  }
  return pythonNumber(std::get<double>(value));
}

std::vector<std::string> pythonParameters(const OpDef& def) {
  std::vector<std::string> required, rest;
  for (const OperandDef& operand : def.operands) {
    switch (operand.arity) {
      case Arity::kOne:
        required.push_back(fmt::format("{}: Tensor", operand.name));
        break;
      case Arity::kVariadic:
        required.push_back(fmt::format("*{}: Tensor", operand.name));
        break;
      case Arity::kOptional:
        rest.push_back(fmt::format("{}: Optional[Tensor] = None", operand.name));
    }
  }
  for (const AttrDef& attr : def.attrs) {
    const std::string type = pythonType(attr.type);
    if (isReducedAxes(attr)) {
      rest.push_back("axis: Axis = None");
    } else if (isRequired(attr)) {
      required.push_back(fmt::format("{}: {}", attr.name, type));
    } else if (isOptional(attr)) {
      rest.push_back(fmt::format("{}: Optional[{}] = None", attr.name, type));
    } else {
      rest.push_back(fmt::format("{}: {} = {}", attr.name, type, pythonLiteral(attr.fallback)));
    }
  }
  required.insert(required.end(), rest.begin(), rest.end());
  return required;
}

std::string pythonDocstring(const OpDef& def, bool inplace) {
  std::string out = wrap("    \"\"\"", "    ", docOf(def, inplace));
  if (!def.operands.empty() || !def.attrs.empty()) out += "\n    Args:\n";
  for (const OperandDef& operand : def.operands) {
    std::string text = operand.doc.empty() ? "" : fmt::format(" {}", upperFirst(operand.doc));
    out += wrap("        ", "            ",
                fmt::format("{}: A tensor ({}).{}", operand.name, dtypeList(operand.dtypes), text));
  }
  for (const AttrDef& attr : def.attrs) {
    out += wrap("        ", "            ", fmt::format("{}: {}", pythonName(attr), upperFirst(attr.doc)));
  }
  if (!def.results.empty()) {
    out += "\n    Returns:\n" + wrap("        ", "            ", returnsOf(def));
  }
  return out + "    \"\"\"\n";
}

std::string pythonFunction(const OpDef& def, const std::string& name, bool inplace) {
  const bool one = hasOneResult(def);
  const std::string result = def.results.empty() ? "None" : one ? "Tensor" : "Tuple[Tensor, ...]";
  std::string out =
      wrapList(fmt::format("def {}(", name), pythonParameters(def), fmt::format(") -> {}:", result)) + "\n";
  out += pythonDocstring(def, inplace);
  std::vector<std::string> names;
  for (const OperandDef& operand : def.operands) {
    names.push_back((operand.arity == Arity::kVariadic ? "*" : "") + std::string(operand.name));
  }
  const std::string operands = fmt::format("({}{})", fmt::join(names, ", "), names.size() == 1 ? "," : "");
  std::vector<std::string> attrs;
  for (const AttrDef& attr : def.attrs) {
    attrs.push_back(isReducedAxes(attr) ? fmt::format("\"{}\": axes_of(axis)", attr.name)
                                        : fmt::format("\"{0}\": {0}", attr.name));
  }
  std::vector<std::string> arguments = {quoted(std::string(def.name)), operands};
  if (!attrs.empty()) arguments.push_back(fmt::format("{{{}}}", fmt::join(attrs, ", ")));
  if (inplace) arguments.push_back(attrs.empty() ? "inplace=True" : "True");
  const std::string maker = one ? "one" : "many";
  return out +
         wrapList(fmt::format("    {}{}(", def.results.empty() ? "" : "return ", maker), arguments, ")") +
         "\n";
}

std::string python(const std::vector<OpDef>& defs) {
  std::vector<std::string> names;
  std::string functions;
  for (const OpDef& def : defs) {
    if (def.visibility != Visibility::kPublic) continue;
    for (const auto& [name, inplace] : namesOf(def)) {
      names.push_back(quoted(name));
      functions += "\n\n" + pythonFunction(def, name, inplace);
    }
  }
  std::string out =
      fmt::format("# {}\n\"\"\"Ops whose Python function needs nothing but the op table.\"\"\"\n", kNotice);
  std::set<std::string> typing;
  for (const char* name : {"Iterable", "Optional", "Tuple"}) {
    if (functions.find(std::string(name) + "[") != std::string::npos) typing.insert(name);
  }
  if (!typing.empty()) out += fmt::format("from typing import {}\n", fmt::join(typing, ", "));
  out += "\n";
  if (functions.find("dtypes.") != std::string::npos) out += "from popxl import dtypes\n";
  if (functions.find(": dtype") != std::string::npos) out += "from popxl.dtypes import dtype\n";
  out += "from popxl.ops._build import Axis, axes_of, many, one\nfrom popxl.tensor import Tensor\n\n";
  return out + wrapList("__all__ = [", names, "]") + "\n" + functions;
}

// --- reference page

std::string runsAs(const OpDef& def) {
  if (def.structure != ir::Structure::kNone) return "the executor";
  if (def.expr != nullptr)
    return def.reducesAxes || def.reducesToOutput ? "a fused reduction" : "a fused expression";
  return def.view != nullptr ? "another view of the memory" : "a kernel";
}

std::string page(const OpDef& def) {
  std::string out = fmt::format("### {}\n\n{}\n\n", def.name, def.doc);
  out += fmt::format("Type `{}`. Gradient: {}. Runs as {}.", def.type,
                     def.grad != nullptr                     ? "yes"
                     : def.stopsGradient                     ? "stops here"
                     : def.structure != ir::Structure::kNone ? "from its graphs, if any"
                                                             : "none",
                     runsAs(def));
  if (def.alwaysInplace) {
    out += fmt::format(" Updates `{}` in place.", def.operands[static_cast<size_t>(def.inplaceOperand)].name);
  } else if (def.inplaceOperand >= 0) {
    const std::string type =
        def.inplaceType.empty() ? std::string(def.type) + "Inplace" : std::string(def.inplaceType);
    out += fmt::format(" In place: `{}`, type `{}`, on `{}`.", def.inplaceName(), type,
                       def.operands[static_cast<size_t>(def.inplaceOperand)].name);
  }
  out += "\n";
  if (!def.operands.empty()) out += "\n| operand | dtypes | |\n|---|---|---|\n";
  for (const OperandDef& operand : def.operands) {
    const char* arity = operand.arity == Arity::kOptional   ? " (optional)"
                        : operand.arity == Arity::kVariadic ? " (any number)"
                                                            : "";
    out += fmt::format("| `{}`{} | {} | {} |\n", operand.name, arity, dtypeList(operand.dtypes), operand.doc);
  }
  if (!def.attrs.empty()) out += "\n| attribute | type | default | |\n|---|---|---|---|\n";
  for (const AttrDef& attr : def.attrs) {
    const std::string fallback = isRequired(attr)   ? ""
                                 : isOptional(attr) ? "absent"
                                                    : "`" + pythonLiteral(attr.fallback) + "`";
    out += fmt::format("| `{}` | {} | {} | {} |\n", attr.name, pythonType(attr.type), fallback, attr.doc);
  }
  if (def.visibility == Visibility::kPublic) out += fmt::format("\nReturns: {}\n", returnsOf(def));
  return out + "\n";
}

std::string reference(const std::vector<OpDef>& defs) {
  std::string out = "# Ops\n\n";
  out += fmt::format(
      "{}\n\nA tensor operand takes the dtypes listed: floats are float16, float32 and float64; ints are the "
      "signed and unsigned integers of 8 to 64 bits.\n\n## Ops of programs\n\n",
      kNotice);
  for (const OpDef& def : defs) {
    if (def.visibility != Visibility::kInternal) out += page(def);
  }
  out += "## Ops made by other ops and by transforms\n\n";
  std::vector<std::string> derived;
  for (const OpDef& def : defs) {
    if (def.derived) derived.push_back(fmt::format("`{}`", def.name));
    if (def.visibility == Visibility::kInternal && !def.derived) out += page(def);
  }
  out += "## Gradients of gradients\n\n";
  out += "Made from the arithmetic of the entries above, one for each operand of an elementwise gradient:\n";
  for (const std::string& name : derived) out += fmt::format("{}\n", name);
  return out;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail(ErrorKind::kRuntime, "`{}` can't be written", path.string());
}

}  // namespace

void writeAll(const std::filesystem::path& out) {
  const std::vector<OpDef>& defs = ops::table().all();
  write(out / "include/popxl/ops.h", cppHeader(defs));
  write(out / "src/ops_generated.cpp", cppSource(defs));
  write(out / "python/popxl/ops/_generated.py", python(defs));
  write(out / "docs/ops.md", reference(defs));
}

}  // namespace popxl::gen

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: popxl-gen OUTDIR\n";
    return 2;
  }
  try {
    popxl::gen::writeAll(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "popxl-gen: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
