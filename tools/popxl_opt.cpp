// Reads a program as text, runs passes on it, verifies it and prints it. What it prints is read back and
// compared.

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"
#include "exec/memory.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/ops.h"
#include "passes/autodiff.h"
#include "passes/pass_runner.h"
#include "passes/recompute.h"
#include "popxl/custom_op.h"
#include "tool.h"

namespace {

using namespace popxl;

constexpr std::string_view kUsage = R"(usage: popxl-opt [options] [FILE]

Reads the text form of a program from FILE or from standard input, runs passes and prints the result.

  --load=PATH        load ops from a shared library (docs/custom-ops.md); may be repeated
  --autodiff=GRAPH   add the graph of the gradients of GRAPH, of all outputs by all inputs; may be repeated
  --recompute        such a graph reads nothing of the forward graph but its inputs: it computes the rest again
  --pass=NAME,NAME   run these passes, in this order
  --verify           verify the program as it was read, too (after a pass it always is)
  --no-loc           print without the locations in the user's program
  --elide=BYTES      print data above this size as its size only (such a text can't be read back)
  --split-input      the input holds several programs, separated by lines `// -----`; an error of one is printed
  --memory           print the memory that the result takes, and what is in use at its peak
  --quiet            print nothing but that
  --list-passes      print what passes there are
)";

struct Arguments {
  std::vector<std::string> differentiated, passes;
  std::string file = "-";
  ir::PrintOptions print;
  bool recompute = false, verify = false, split = false, quiet = false, memory = false, list = false;
};

std::vector<std::string> splitAt(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

Arguments readArguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--pass=")) {
      for (std::string& name : splitAt(argument.substr(7), ",")) out.passes.push_back(std::move(name));
    } else if (argument.starts_with("--autodiff=")) {
      out.differentiated.emplace_back(argument.substr(11));
    } else if (argument == "--recompute") {
      out.recompute = true;
    } else if (argument.starts_with("--load=")) {
      loadOps(std::string(argument.substr(7)));
    } else if (argument.starts_with("--elide=")) {
      out.print.elideDataAbove = tools::numberOf(argument);
    } else if (argument == "--verify") {
      out.verify = true;
    } else if (argument == "--no-loc") {
      out.print.locations = false;
    } else if (argument == "--split-input") {
      out.split = true;
    } else if (argument == "--quiet") {
      out.quiet = true;
    } else if (argument == "--memory") {
      out.memory = true;
    } else if (argument == "--list-passes") {
      out.list = true;
    } else if (argument == "--help") {
      std::cout << kUsage;
      std::exit(0);
    } else if (argument.starts_with("-") && argument != "-") {
      fail(ErrorKind::kValue, "there is no option {}\n{}", argument, kUsage);
    } else {
      out.file = argument;
    }
  }
  return out;
}

/// The printed text, read back: it must be accepted and print the same.
void checkIdentity(const ir::Ir& program, const ir::PrintOptions& options) {
  const std::string once = ir::print(program, options);
  const std::string twice = ir::print(*ir::parse(once, ops::table()), options);
  if (once != twice)
    throw InternalError("what was printed reads back differently:\n" + once + "\nand\n" + twice);
}

/// Adds a gradient graph, printed with a line that says what its inputs and outputs stand for.
void differentiate(ir::Ir& program, const std::string& name, bool recompute) {
  const std::vector<ir::Graph*> graphs = program.graphs();
  const auto found = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const ir::Graph* g) { return g->displayName() == name; });
  if (found == graphs.end()) {
    std::string names;
    for (const ir::Graph* g : graphs) names += (names.empty() ? "" : ", ") + g->displayName();
    fail(ErrorKind::kValue, "there is no graph `{}`; there are: {}", name, names);
  }
  passes::GradInfo info = passes::autodiff(**found).at(*found);
  if (recompute) {
    const passes::GradInfo given = info;
    info = passes::recompute(given);
    program.eraseGraph(given.graph);
  }
  const auto list = [](const std::vector<passes::Connection>& connections) {
    std::string text;
    for (const passes::Connection& c : connections) {
      text += fmt::format("{}{}%{}", text.empty() ? "" : ", ", c.isGrad ? "gradient of " : "", c.fwd->name());
    }
    return text;
  };
  std::cout << fmt::format("// {}({}) -> ({})\n", info.graph->id(), list(info.inputs), list(info.outputs));
}

void process(const std::string& text, const Arguments& arguments) {
  const auto program = ir::parse(text, ops::table());
  if (arguments.verify) ir::verify(*program);
  for (const std::string& name : arguments.differentiated) differentiate(*program, name, arguments.recompute);
  for (const std::string& name : arguments.passes) passes::runPass(name, *program);
  const bool complete = arguments.print.elideDataAbove == ir::PrintOptions{}.elideDataAbove;
  if (complete) checkIdentity(*program, arguments.print);
  if (!arguments.quiet) std::cout << ir::print(*program, arguments.print);
  if (arguments.memory) {
    std::cout << exec::memoryOf(*compile::compile(*program), program->instanceReplicationFactor()).table();
  }
}

int run(const Arguments& arguments) {
  if (arguments.list) {
    for (const passes::Pass& pass : passes::allPasses())
      std::cout << fmt::format("{:<16} {}\n", pass.name, pass.doc);
    return 0;
  }
  const std::string text = tools::readAll(arguments.file);
  if (!arguments.split) {
    process(text, arguments);
    return 0;
  }
  bool first = true;
  for (const std::string& part : splitAt(text, "// -----\n")) {
    if (!first && !arguments.quiet) std::cout << "// -----\n";
    first = false;
    try {
      process(part, arguments);
    } catch (const Error& error) {
      std::cout << "error: " << error.what() << '\n';
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tools::runTool("popxl-opt", [&] { return run(readArguments(argc, argv)); });
}
