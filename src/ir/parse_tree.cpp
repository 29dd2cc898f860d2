#include "ir/parse_tree.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ir/token_reader.h"

namespace popxl::ir {
namespace {

constexpr int64_t kMaxId = int64_t{1} << 60;
constexpr std::string_view kOpSuffixes =
    "'{', ipu(, tiles(, context(, scope(, modified(, after(, ':' or loc(";

class TreeParser {
 public:
  TreeParser(Lexer& lexer, const OpTable& table, int64_t maxDataBytes)
      : in_(lexer), table_(table), dataBytesLeft_(maxDataBytes) {}

  IrText run() {
    const bool wrapped = in_.acceptWord("ir");
    if (wrapped) {
      if (in_.accept("(")) header();
      in_.expect("{", "to open the ir");
    }
    while (!(wrapped ? in_.peek().is("}") : in_.peek().kind == TokenKind::kEnd)) item(wrapped);
    if (wrapped) in_.take();
    if (in_.peek().kind != TokenKind::kEnd) in_.expected("the end of the text after the ir");
    return std::move(tree_);
  }

 private:
  void item(bool wrapped) {
    if (in_.acceptWord("stream")) return stream();
    if (in_.acceptWord("remote_buffer")) return remoteBuffer();
    if (in_.acceptWord("graph")) return graph();
    in_.expected(wrapped ? "stream, remote_buffer, graph or '}'" : "ir, stream, remote_buffer or graph");
  }

  void header() {
    in_.list(")", [&] {
      const Token name = in_.take();
      in_.expect("=", "after the name of an option");
      if (name.isWord("host_transfers")) {
        const size_t at = in_.peek().at;
        tree_.hostTransfers = in_.integer("the number of host transfers");
        if (tree_.hostTransfers < 1) in_.fail(at, "host_transfers must be at least 1");
      } else if (name.isWord("counters")) {
        const size_t at = in_.peek().at;
        const auto counters = in_.integers();
        const bool valid = counters.size() == 3 && *std::min_element(counters.begin(), counters.end()) >= 0;
        if (!valid) in_.fail(at, "expected [ops, tensors, graphs], three numbers that are not negative");
        tree_.counters = Ir::Counters{counters[0], counters[1], counters[2]};
      } else {
        const auto defs = optionDefs();
        const auto def =
            std::find_if(defs.begin(), defs.end(), [&](const OptionDef& d) { return name.isWord(d.name); });
        if (def == defs.end()) {
          in_.fail(name.at, fmt::format("expected host_transfers, counters or a session option, got {}",
                                        describe(name)));
        }
        option(def->member);
      }
    });
  }

  void option(const OptionDef::Member& member) {
    struct Visitor {
      TokenReader& in;
      SessionOptions& o;
      void operator()(bool SessionOptions::*m) const { o.*m = in.boolean(); }
      void operator()(int64_t SessionOptions::*m) const { o.*m = in.integer("an integer"); }
      void operator()(std::string SessionOptions::*m) const { o.*m = in.string("a string"); }
      void operator()(VirtualGraphMode SessionOptions::*m) const {
        o.*m = static_cast<VirtualGraphMode>(in.oneOf(virtualGraphModes()));
      }
      void operator()(std::set<std::string> SessionOptions::*m) const {
        in.expect("[", "to open the strings");
        in.list("]", [&] { (o.*m).insert(in.string("a string")); });
      }
      void operator()(std::map<std::string, std::string> SessionOptions::*m) const {
        in.expect("{", "to open the options");
        in.list("}", [&] {
          std::string key = in.string("the name of an option");
          in.expect("=", "after the name of an option");
          (o.*m)[std::move(key)] = in.string("a string");
        });
      }
    };
    std::visit(Visitor{in_, tree_.options}, member);
  }

  void stream() {
    StreamText s;
    s.name.at = in_.peek().at;
    s.name.name = in_.string("the name of the stream");
    in_.expect(":", "before the type of the stream");
    s.type = in_.type();
    constexpr std::array<std::string_view, 2> kDirections{"host_to_device", "device_to_host"};
    s.direction = static_cast<StreamDirection>(in_.oneOf(kDirections));
    s.loc = in_.location();
    tree_.streams.push_back(std::move(s));
  }

  void remoteBuffer() {
    RemoteBuffer b{};
    const size_t at = in_.peek().at;
    b.id = in_.integer("the number of the remote buffer");
    const auto& all = tree_.remoteBuffers;
    if (std::any_of(all.begin(), all.end(), [&](const RemoteBuffer& other) { return other.id == b.id; })) {
      in_.fail(at, fmt::format("there is already a remote_buffer {}", b.id));
    }
    in_.expect(":", "before the type of the remote buffer");
    b.type = in_.type();
    in_.expectWord("entries");
    in_.expect("(", "after entries");
    const size_t entriesAt = in_.peek().at;
    b.entries = in_.integer("the number of entries");
    if (b.entries < 1) in_.fail(entriesAt, "a remote buffer has at least one entry");
    in_.expect(")", "after the number of entries");
    tree_.remoteBuffers.push_back(std::move(b));
  }

  void graph() {
    GraphText& g = tree_.graphs.emplace_back();
    g.id = in_.graphName();
    if (in_.accept("(")) {
      in_.list(")", [&] {
        InputText& input = g.inputs.emplace_back();
        input.name = in_.tensorName("an input");
        in_.expect(":", "before the type of the input");
        input.type = in_.type();
        input.byRef = in_.acceptWord("byref");
        input.loc = in_.location();
      });
    }
    if (in_.accept("->")) {
      in_.expect("(", "to open the outputs");
      in_.list(")", [&] { g.outputs.push_back(in_.tensorName("an output")); });
    }
    if (in_.acceptWord("no_autodiff")) g.differentiable = false;
    in_.expect("{", "to open the graph");
    while (!in_.accept("}")) statement(g);
  }

  void statement(GraphText& g) {
    OpText op;
    op.at = in_.peek().at;
    op.id = lastId_ + 1;
    if (in_.peek().kind == TokenKind::kOp) {
      const Token number = in_.take();
      op.id = in_.toInteger(number, number.text);
    }
    if (op.id > kMaxId) in_.fail(op.at, fmt::format("the number of an op is at most {}", kMaxId));
    if (in_.peek().kind == TokenKind::kTensor) {
      do op.results.push_back(in_.tensorName("a result"));
      while (in_.accept(","));
      in_.expect("=", "after the results");
    }
    const Token& word = in_.peek();
    if (word.kind != TokenKind::kWord)
      in_.expected(op.results.empty() ? "an op, a tensor or '}'" : "the name of an op");
    if (!isDeclaration(word.text)) return this->op(g, std::move(op));
    if (op.results.size() != 1)
      in_.fail(op.at, fmt::format("a {} is one tensor: expected `%name = {}`", word.text, word.text));
    declaration(g, std::move(op.results[0]));
  }

  void declaration(GraphText& g, NameText name) {
    const Token kind = in_.take();
    DeclarationText d;
    d.name = std::move(name);
    d.kind = kind.text == "variable"   ? TensorKind::kVariable
             : kind.text == "constant" ? TensorKind::kConstant
                                       : TensorKind::kStream;
    const size_t typeAt = in_.peek().at;
    d.type = in_.type();
    if (in_.acceptWord("groups")) groups(d.settings);
    d.settings.retrieveAllReplicas = in_.acceptWord("retrieve_all");
    if (in_.acceptWord("remote")) remote(d.settings);
    d.data = data(d, typeAt);
    d.loc = in_.location();
    g.declarations.push_back(std::move(d));
  }

  void groups(VariableSettings& settings) {
    in_.expect("(", "after groups");
    const size_t at = in_.peek().at;
    settings.numGroups = in_.integer("the number of groups");
    in_.expect(":", "after the number of groups");
    for (const int64_t group : in_.integers()) {
      if (group < 0 || group >= settings.numGroups) in_.fail(at, fmt::format("there is no group {}", group));
      settings.groupOf.push_back(static_cast<int32_t>(group));
    }
    if (settings.numGroups < 1 || settings.numGroups > (1 << 20))
      in_.fail(at, "expected between 1 and 2^20 groups");
    in_.expect(")", "after the groups");
  }

  void remote(VariableSettings& settings) {
    in_.expect("(", "before the remote buffer");
    settings.remoteBuffer = in_.integer("the number of a remote buffer");
    in_.expect(",", "before the entry");
    settings.remoteEntry = in_.integer("the entry");
    if (in_.accept(",")) {
      in_.expectWord("shards");
      const size_t at = in_.peek().at;
      for (const int64_t shard : in_.integers()) {
        if (shard < 0 || shard > (1 << 20)) in_.fail(at, fmt::format("there is no shard {}", shard));
        settings.shardOf.push_back(static_cast<int32_t>(shard));
      }
    }
    in_.expect(")", "after the entry");
  }

  std::shared_ptr<HostData> allocate(const DeclarationText& d, size_t at) {
    const bool negative =
        std::any_of(d.type.shape.begin(), d.type.shape.end(), [](int64_t n) { return n < 0; });
    if (negative) in_.fail(at, fmt::format("a tensor of shape {} has no data", toString(d.type.shape)));
    const int64_t elementsLeft = dataBytesLeft_ / sizeOf(d.type.dtype) / d.settings.numGroups;
    if (d.type.numElements() > elementsLeft) {
      in_.fail(at, fmt::format("the text's data takes more memory than there is, at the {} of tensor {}",
                               d.type.str(), tensorText(d.name.name)));
    }
    dataBytesLeft_ -= d.type.bytes() * d.settings.numGroups;
    return HostData::allocate(d.type.bytes() * d.settings.numGroups);
  }

  std::shared_ptr<HostData> data(const DeclarationText& d, size_t typeAt) {
    const Token& first = in_.peek();
    const size_t at = first.at;
    const auto width = static_cast<size_t>(sizeOf(d.type.dtype));
    if (in_.acceptWord("zeros")) return allocate(d, typeAt);
    if (in_.acceptWord("full")) {
      auto host = allocate(d, typeAt);
      in_.expect("(", "after full");
      std::array<std::byte, 16> element{};
      in_.element(d.type.dtype, element.data());
      in_.expect(")", "after the value");
      for (int64_t i = 0; i < host->size; i += static_cast<int64_t>(width))
        std::copy_n(element.data(), width, host->bytes + i);
      return host;
    }
    if (in_.accept("[")) {
      auto host = allocate(d, typeAt);
      const int64_t wanted = host->size / static_cast<int64_t>(width);
      int64_t given = 0;
      in_.list("]", [&] {
        if (given == wanted)
          in_.fail(at, fmt::format("expected {} elements for {}, got more", wanted, d.type.str()));
        in_.element(d.type.dtype, host->bytes + static_cast<size_t>(given++) * width);
      });
      if (given != wanted)
        in_.fail(at, fmt::format("expected {} elements for {}, got {}", wanted, d.type.str(), given));
      return host;
    }
    if (in_.acceptWord("base64")) {
      in_.expect("(", "after base64");
      const auto bytes = base64Decode(in_.string("the data"));
      if (!bytes) in_.fail(at, "the string is not base64");
      in_.expect(")", "after the data");
      auto host = allocate(d, typeAt);
      if (static_cast<int64_t>(bytes->size()) != host->size) {
        in_.fail(at,
                 fmt::format("expected {} bytes for {}, got {}", host->size, d.type.str(), bytes->size()));
      }
      std::copy(bytes->begin(), bytes->end(), host->bytes);
      return host;
    }
    if (first.isWord("elided")) {
      in_.fail(
          at, "the data of this tensor was left out when the text was printed; print it in full to parse it");
    }
    return nullptr;
  }

  void op(GraphText& g, OpText op) {
    const Token name = in_.take();
    op.def = table_.find(name.text, &op.inplace);
    if (op.def == nullptr) in_.fail(name.at, fmt::format("there is no op named `{}`", name.text));
    while (in_.peek().kind == TokenKind::kGraph) op.graphs.push_back(in_.graphName());
    const bool parens = !in_.peek().newLine && in_.accept("(");
    if (parens) {
      in_.list(")", [&] { operand(op); });
    } else if (!in_.peek().newLine && (in_.peek().kind == TokenKind::kTensor || in_.peek().isWord("_"))) {
      do operand(op);
      while (in_.accept(","));
    }
    if (in_.accept("{")) attrs(op);
    while (suffix(op)) {
    }
    if (in_.accept(":")) {
      do {
        const size_t at = in_.peek().at;
        op.types.push_back({in_.type(), at});
      } while (in_.accept(","));
    }
    op.loc = in_.location();
    if (const Token& rest = in_.peek(); !rest.newLine && !rest.is("}")) {
      in_.expected(fmt::format("{} or the end of the line", kOpSuffixes));
    }
    lastId_ = op.id;
    g.ops.push_back(std::move(op));
  }

  void operand(OpText& op) {
    if (in_.acceptWord("_")) {
      op.operands.emplace_back();
    } else {
      op.operands.emplace_back(in_.tensorName("an operand"));
    }
  }

  void attrs(OpText& op) {
    op.attrs.resize(op.def->attrs.size());
    in_.list("}", [&] {
      const Token name = in_.take();
      const int32_t index = name.kind == TokenKind::kWord ? op.def->attrIndex(name.text) : -1;
      if (index < 0) {
        std::string known;
        for (const AttrDef& a : op.def->attrs)
          known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
        in_.fail(name.at, fmt::format("expected an attribute of `{}` ({}), got {}", op.def->name,
                                      known.empty() ? "it has none" : known, describe(name)));
      }
      in_.expect("=", "after the name of the attribute");
      if (in_.acceptWord("none")) {
        op.absent.push_back(index);
      } else {
        op.attrs[static_cast<size_t>(index)] = in_.attribute(op.def->attrs[static_cast<size_t>(index)]);
      }
    });
  }

  bool suffix(OpText& op) {
    constexpr std::array<std::string_view, 3> kTileSets{"undefined", "compute", "io"};
    constexpr std::array<std::string_view, 4> kContexts{"weights_from_host", "normal", "accumulate_outer",
                                                        "weights_to_host"};
    if (in_.acceptSuffix("ipu")) {
      op.settings.ipu = in_.acceptWord("none") ? -1 : in_.int32("the number of the ipu");
    } else if (in_.acceptSuffix("tiles")) {
      op.settings.tileSet = static_cast<TileSet>(in_.oneOf(kTileSets));
    } else if (in_.acceptSuffix("context")) {
      op.settings.context = static_cast<ExecutionContext>(in_.oneOf(kContexts));
    } else if (in_.acceptSuffix("scope")) {
      op.settings.scope = intern(in_.string("the name of the scope"));
    } else if (in_.acceptSuffix("modified")) {
      do op.modified.push_back(in_.int32("the index of an operand"));
      while (in_.accept(","));
    } else if (in_.acceptSuffix("after")) {
      do {
        if (in_.peek().kind == TokenKind::kOp) {
          const Token number = in_.take();
          op.after.push_back({fmt::format("#{}", in_.toInteger(number, number.text)), number.at});
        } else {
          op.after.push_back(in_.tensorName("an op's result or #number"));
        }
      } while (in_.accept(","));
    } else {
      return false;
    }
    in_.expect(")", "to close");
    return true;
  }

  TokenReader in_;
  const OpTable& table_;
  int64_t dataBytesLeft_;
  IrText tree_;
  int64_t lastId_ = -1;
};

}  // namespace

IrText parseTree(Lexer& lexer, const OpTable& table, const ParseOptions& options) {
  int64_t maxDataBytes = options.maxDataBytes;
  if (maxDataBytes == 0) maxDataBytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return TreeParser(lexer, table, maxDataBytes).run();
}

}  // namespace popxl::ir
