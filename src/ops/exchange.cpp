#include "ops/exchange.h"

#include <sstream>

#include "ir/ir.h"
#include "ops/define.h"

// Several transfers as one op. A program is run with each of them as an op of its own.
namespace popxl::ops {

std::vector<Exchange> exchangesOf(const Op& op) {
  std::vector<Exchange> exchanges;
  std::istringstream lines(op.attr<std::string>("exchanges"));
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    Exchange& exchange = exchanges.emplace_back(Exchange{line.substr(0, space), ""});
    if (space != std::string::npos) exchange.target = line.substr(space + 1);
    const ir::OpDef* def = op.graph().ir().table().find(exchange.name);
    const bool known =
        def != nullptr &&
        (def->structure == Structure::kHostLoad || def->structure == Structure::kHostStore ||
         def->structure == Structure::kRemoteLoad || def->structure == Structure::kRemoteStore);
    if (!known) fail(ErrorKind::kValue, "`exchanges` names `{}`, which is no transfer", exchange.name);
  }
  return exchanges;
}

std::string textOf(const std::vector<Exchange>& exchanges) {
  std::string text;
  for (const Exchange& e : exchanges) text += (text.empty() ? "" : "\n") + e.name + " " + e.target;
  return text;
}

void exchange(Defs& defs) {
  OpDef def;
  def.name = "multi_exchange";
  def.type = "MultiExchange";
  def.doc = "Several transfers from and to the host and remote buffers that do not depend on each other.";
  def.operands = {{"ts", ir::kAny, "The operands of the transfers, one after another.", Arity::kVariadic}};
  def.attrs = {
      {"exchanges", AttrType::kString, "A line for each transfer: op, and stream or remote buffer."}};
  def.results = {{"outs", "", true}};
  def.infer = [](const Op& op, Types& out) {
    size_t next = 0;
    for (const Exchange& e : exchangesOf(op)) {
      if (next + e.operands() > op.inputs().size())
        fail(ErrorKind::kValue, "`{}` has no operand among the {} of the exchange", e.name,
             op.inputs().size());
      if (e.loads()) out.push_back(typeOf(op, next));
      next += e.operands();
    }
  };
  def.stopsGradient = true;
  def.visibility = Visibility::kInternal;
  def.sideEffect = true;
  def.structure = Structure::kNothing;
  defs.push_back(def);
}

}  // namespace popxl::ops
