#include "compile/program.h"

#include <fmt/format.h>

namespace popxl::compile {
namespace {

std::string str(const Address& a) {
  switch (a.base) {
    case Address::Base::kNone:
      return "-";
    case Address::Base::kFrame:
      return fmt::format("frame+{}", a.offset);
    case Address::Base::kLane:
      return fmt::format("lane+{}", a.offset);
    case Address::Base::kShared:
      return fmt::format("shared+{}", a.offset);
    case Address::Base::kVariable:
      return fmt::format("var+{}", a.offset);
    case Address::Base::kArgument:
      return fmt::format("arg{}+{}", a.index, a.offset);
    case Address::Base::kConstant:
      return fmt::format("const+{}", a.offset);
  }
  return "";
}

std::string list(const std::vector<Address>& addresses) {
  std::string out;
  for (const Address& a : addresses) out += (out.empty() ? "" : ", ") + str(a);
  return "(" + out + ")";
}

/// How often the body runs: "x3", "x<=3".
std::string times(const RunRepeat& r) {
  return fmt::format("x{}{}{}", r.hasFixedCount() ? "" : "<=", r.count, r.reverse ? " reverse" : "");
}

struct Printer {
  const Program& program;

  std::string callee(int32_t code) const {
    return "@" + program.codes[static_cast<size_t>(code)].graph->displayName();
  }
  std::string operator()(const RunKernel& k) const { return k.kernel->describe() + " " + list(k.operands); }
  std::string operator()(const RunCall& c) const {
    return fmt::format("call {} {} frame+{}", callee(c.code), list(c.arguments), c.frame);
  }
  std::string operator()(const RunRepeat& r) const {
    std::vector<Address> finals, others, stacks;
    for (const RunRepeat::Carried& c : r.carried) {
      finals.push_back(c.final);
      others.push_back(c.other);
    }
    for (const RunRepeat::Stack& stack : r.stacks) stacks.push_back(stack.first);
    return fmt::format("repeat {} {} {} carried {} / {}{} frame+{}", callee(r.code), times(r), list(r.inputs),
                       list(finals), list(others), stacks.empty() ? "" : " stacked " + list(stacks), r.frame);
  }
  std::string operator()(const RunConditional& c) const {
    return fmt::format("if {} {} else {}", str(c.condition), (*this)(c.then), (*this)(c.otherwise));
  }
  std::string stream(int32_t s) const { return program.streams[static_cast<size_t>(s)].id(); }
  std::string operator()(const RunHostLoad& l) const {
    return fmt::format("host_load {} {}", stream(l.stream), str(l.to));
  }
  std::string operator()(const RunHostStore& s) const {
    return fmt::format("host_store {} {}", stream(s.stream), str(s.from));
  }
  std::string operator()(const RunRemote& r) const {
    return fmt::format("{} {} [{}] {}", r.stores ? "remote_store" : "remote_load", r.buffer, str(r.entry),
                       str(r.data));
  }
  std::string operator()(const RunPrint& p) const { return "print " + str(p.from); }
  std::string operator()(const RunCollective& c) const {
    return fmt::format("{} ({}, {})", c.collective->describe(), str(c.from), str(c.to));
  }
};

/// What an instruction does, without where its operands lie.
struct Describer {
  const Program& program;

  std::string callee(int32_t code) const { return Printer{program}.callee(code); }
  std::string stream(int32_t s) const { return Printer{program}.stream(s); }
  std::string operator()(const RunKernel& k) const { return k.kernel->describe(); }
  std::string operator()(const RunCall& c) const { return "call " + callee(c.code); }
  std::string operator()(const RunRepeat& r) const {
    return fmt::format("repeat {} {}", callee(r.code), times(r));
  }
  std::string operator()(const RunConditional& c) const {
    return fmt::format("if {} else {}", callee(c.then.code), callee(c.otherwise.code));
  }
  std::string operator()(const RunHostLoad& l) const { return "host_load " + stream(l.stream); }
  std::string operator()(const RunHostStore& s) const { return "host_store " + stream(s.stream); }
  std::string operator()(const RunRemote& r) const {
    return fmt::format("{} {}", r.stores ? "remote_store" : "remote_load", r.buffer);
  }
  std::string operator()(const RunPrint&) const { return "print"; }
  std::string operator()(const RunCollective& c) const { return c.collective->describe(); }
};

std::string list(const Code& code, const Program& program) {
  std::string out;
  for (const Instruction& i : code.instructions) {
    out += "  " + std::visit(Printer{program}, i.what);
    for (const ir::Op* op : i.ops)
      out += fmt::format("{}{}", op == i.ops.front() ? "  // " : " ", op->name());
    if (!i.ops.empty() && i.ops.front()->loc().known()) out += " " + i.ops.front()->loc().str();
    out += "\n";
  }
  return out;
}

}  // namespace

std::string Program::describe(const Instruction& instruction) const {
  return std::visit(Describer{*this}, instruction.what);
}

std::string Program::str() const {
  std::string out = fmt::format("variables {} bytes, constants {} bytes\n", variableBytes, constantBytes);
  if (sharedBytes > 0) out += fmt::format("variables of all replicas {} bytes\n", sharedBytes);
  if (!sharedPreparation.instructions.empty())
    out += "preparation of all replicas\n" + list(sharedPreparation, *this);
  if (!preparation.instructions.empty()) out += "preparation\n" + list(preparation, *this);
  for (const Code& code : codes) {
    out += fmt::format("@{} frame {} bytes", code.graph->displayName(), code.frameBytes);
    if (!code.cuts.empty()) out += fmt::format(", of each replica {} bytes", code.laneBytes);
    out += "\n" + list(code, *this);
  }
  return out;
}

}  // namespace popxl::compile
