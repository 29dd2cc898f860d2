// Reads a program as text, compiles it, runs it and prints what it gives to the host.

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"
#include "base/error.h"
#include "exec/session.h"
#include "ir/parse.h"
#include "kernels/philox.h"
#include "ops/ops.h"
#include "popxl/custom_op.h"
#include "tool.h"

namespace {

using namespace popxl;

constexpr std::string_view kUsage = R"(usage: popxl-run [options] [FILE]

Compiles and runs the text form of a program from FILE or from standard input, and prints its output streams.

  --input=STREAM=VALUE  what the host gives: a number for every element, `random` for numbers in [0, 1) by a fixed seed,
                        or @PATH, a file of the stream's bytes; streams that are not named get zeros
  --load=PATH           load ops from a shared library (docs/custom-ops.md); may be repeated
  --runs=N              run N times; variables keep their values in between
  --remote-storage=DIR  keep remote buffers in files in that folder; what is there already they begin with
  --remote-ram=BYTES    the most RAM that entries of such buffers take
  --reference           run every op by its definition in float64 instead of compiling
  --program             print the compiled program
  --memory              print the planned memory and what is in use at its peak
  --fits=BYTES          run only if it takes at most so many bytes
  --profile             print where the time of the runs went
  --trace=FILE          write the runs as a trace for ui.perfetto.dev or chrome://tracing
)";

struct Arguments {
  std::string file = "-";
  std::map<std::string, std::string> inputs;
  int64_t runs = 1;
  bool reference = false, program = false, memory = false, profile = false;
  std::string trace;
  std::optional<int64_t> limit;
  RemoteStorage remote;
};

Arguments readArguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--input=")) {
      const std::string_view rest = argument.substr(8);
      const size_t at = rest.find('=');
      if (at == std::string_view::npos)
        fail(ErrorKind::kValue, "{}: expected --input=STREAM=VALUE", argument);
      out.inputs[std::string(rest.substr(0, at))] = rest.substr(at + 1);
    } else if (argument.starts_with("--load=")) {
      loadOps(std::string(argument.substr(7)));
    } else if (argument.starts_with("--runs=")) {
      out.runs = tools::numberOf(argument);
    } else if (argument.starts_with("--remote-storage=")) {
      out.remote.directory = argument.substr(17);
    } else if (argument.starts_with("--remote-ram=")) {
      out.remote.ramBytes = tools::numberOf(argument);
    } else if (argument == "--reference") {
      out.reference = true;
    } else if (argument == "--program") {
      out.program = true;
    } else if (argument == "--memory") {
      out.memory = true;
    } else if (argument.starts_with("--fits=")) {
      out.limit = tools::numberOf(argument);
    } else if (argument == "--profile") {
      out.profile = true;
    } else if (argument.starts_with("--trace=")) {
      out.trace = argument.substr(8);
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

void store(std::vector<std::byte>& to, int64_t i, DType t, double value) {
  Element element{value, 0};
  if (t == DType::kBool) element.integer = uint64_t{value != 0};
  if (isInt(t)) element.integer = static_cast<uint64_t>(static_cast<int64_t>(value));
  storeElement(t, element, to.data() + i * sizeOf(t));
}

double load(const std::vector<std::byte>& from, int64_t i, DType t) {
  const Element element = loadElement(t, from.data() + i * sizeOf(t));
  if (isFloat(t)) return element.number;
  return isSigned(t) ? static_cast<double>(static_cast<int64_t>(element.integer))
                     : static_cast<double>(element.integer);
}

std::vector<std::byte> inputData(const ir::Stream& stream, int64_t entries, const std::string& value) {
  const ir::TensorType& type = stream.tensor->type();
  std::vector<std::byte> data(static_cast<size_t>(type.bytes() * entries));
  if (value.starts_with("@")) {
    const std::string bytes = tools::readAll(value.substr(1));
    if (bytes.size() != data.size()) {
      fail(ErrorKind::kValue, "{} has {} bytes, stream `{}` takes {}", value.substr(1), bytes.size(),
           stream.id(), data.size());
    }
    std::memcpy(data.data(), bytes.data(), bytes.size());
    return data;
  }
  char* end = nullptr;
  const double number = value == "random" ? 0 : std::strtod(value.c_str(), &end);
  if (value != "random" && (value.empty() || *end != '\0')) {
    fail(ErrorKind::kValue, "stream `{}`: `{}` is no number, `random` or @PATH", stream.id(), value);
  }
  for (int64_t i = 0; i < type.numElements() * entries; ++i) {
    const double drawn = kernels::philox(1, 2, static_cast<uint64_t>(i), 0) * 0x1p-32;
    store(data, i, type.dtype, value == "random" ? drawn : number);
  }
  return data;
}

void printOutput(const ir::Stream& stream, const std::vector<std::byte>& data, int64_t entries) {
  const ir::TensorType& type = stream.tensor->type();
  constexpr int64_t kShown = 16;
  const int64_t elements = type.numElements() * entries;
  std::string values;
  for (int64_t i = 0; i < std::min(elements, kShown); ++i) {
    values += fmt::format("{}{}", i == 0 ? "" : ", ", static_cast<float>(load(data, i, type.dtype)));
  }
  if (elements > kShown) values += fmt::format(", ... {} more", elements - kShown);
  std::cout << fmt::format("{} {}: [{}]\n", stream.id(), type.str(), values);
}

void writeProfile(const Arguments& arguments, const Profile& profile) {
  if (arguments.profile) std::cout << profile.table();
  if (arguments.trace.empty()) return;
  std::ofstream out(arguments.trace, std::ios::binary);
  out << profile.chromeTrace();
  if (!out.flush()) fail(ErrorKind::kValue, "can't write {}: {}", arguments.trace, std::strerror(errno));
}

void run(const Arguments& arguments) {
  const auto ir = ir::parse(tools::readAll(arguments.file), ops::table());
  for (const auto& [name, value] : arguments.inputs) {
    const ir::Stream* stream = ir->findStream(name);
    if (stream == nullptr || stream->direction != ir::StreamDirection::kHostToDevice) {
      fail(ErrorKind::kValue, "the program has no input stream `{}`", name);
    }
  }
  exec::Session session(ir, arguments.reference ? EngineKind::kReference : EngineKind::kCompiled,
                        arguments.remote);
  if (arguments.program) std::cout << session.program().str();
  const MemoryReport memory = session.memory();
  if (arguments.memory) std::cout << memory.table();
  if (arguments.limit && !memory.fits(*arguments.limit)) {
    fail(ErrorKind::kDevice, "the program needs {} bytes, {} more than the {} of --fits\n{}", memory.total(),
         memory.total() - *arguments.limit, *arguments.limit, memory.table());
  }
  const int64_t entries = ir->hostTransfers() * ir->instanceReplicationFactor();
  std::vector<std::vector<std::byte>> data;
  std::vector<exec::StreamBuffer> buffers;
  for (const ir::Stream& s : ir->streams()) {
    const auto given = arguments.inputs.find(s.id());
    data.push_back(inputData(s, entries, given == arguments.inputs.end() ? "0" : given->second));
    buffers.push_back({s.id(), data.back().data(), ir->hostTransfers()});
  }
  session.attach();
  session.weightsFromHost();
  const bool profiled = arguments.profile || !arguments.trace.empty();
  if (profiled) session.startProfile();
  for (int64_t i = 0; i < arguments.runs; ++i) session.run(buffers);
  if (profiled) writeProfile(arguments, session.stopProfile());
  for (size_t i = 0; i < data.size(); ++i) {
    if (ir->streams()[i].direction == ir::StreamDirection::kDeviceToHost)
      printOutput(ir->streams()[i], data[i], entries);
  }
  session.detach();
}

}  // namespace

int main(int argc, char** argv) {
  return tools::runTool("popxl-run", [&] {
    run(readArguments(argc, argv));
    return 0;
  });
}
