#include "ir/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "ir/text_values.h"

namespace popxl::ir {
namespace {

constexpr int64_t kMaxListed = 16;  // elements of data that are written one by one

bool sameAttr(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  // By text, so that NaNs and signed zeros compare by their bits.
  return a == b || attrText(a) == attrText(b);
}

std::string optionText(const SessionOptions& options, const OptionDef::Member& member) {
  struct Visitor {
    const SessionOptions& o;
    std::string operator()(bool SessionOptions::*m) const { return o.*m ? "true" : "false"; }
    std::string operator()(int64_t SessionOptions::*m) const { return fmt::format("{}", o.*m); }
    std::string operator()(std::string SessionOptions::*m) const { return quoted(o.*m); }
    std::string operator()(VirtualGraphMode SessionOptions::*m) const {
      return std::string(virtualGraphModes()[static_cast<size_t>(o.*m)]);
    }
    std::string operator()(std::set<std::string> SessionOptions::*m) const {
      std::string out;
      for (const std::string& s : o.*m) out += (out.empty() ? "" : ", ") + quoted(s);
      return '[' + out + ']';
    }
    std::string operator()(std::map<std::string, std::string> SessionOptions::*m) const {
      std::string out;
      for (const auto& [key, value] : o.*m)
        out += (out.empty() ? "" : ", ") + quoted(key) + " = " + quoted(value);
      return '{' + out + '}';
    }
  };
  return std::visit(Visitor{options}, member);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string finish() { return fmt::to_string(out_); }
  /// A stream stands in the text of the Ir, not in its graph.
  void listStream(const Tensor* t) { streams_.insert(t); }

  void ir(const Ir& ir) {
    add("ir{} {{\n", header(ir));
    for (const Stream& s : ir.streams()) {
      add("  stream {} : {} {}", quoted(s.id()), typeText(s.tensor->type()),
          s.direction == StreamDirection::kHostToDevice ? "host_to_device" : "device_to_host");
      endLine(s.tensor->loc());
      listStream(s.tensor);
    }
    for (const auto& b : ir.remoteBuffers()) {
      add("  remote_buffer {} : {} entries({})\n", b->id, typeText(b->type), b->entries);
    }
    for (const Graph* g : ir.graphs()) graph(*g, "  ");
    add("}}\n");
  }

  void graph(const Graph& g, std::string_view indent) {
    add("{}graph {}", indent, graphText(g.id()));
    if (!g.inputs().empty()) {
      add("(");
      for (size_t i = 0; i < g.inputs().size(); ++i) input(*g.inputs()[i], i == 0);
      add(")");
    }
    if (!g.outputs().empty()) add(" -> ({})", names(g.outputs()));
    add("{} {{\n", g.canBeDifferentiated() ? "" : " no_autodiff");
    for (const Tensor* t : g.tensors()) {
      if (t->isPersistent() || (t->kind() == TensorKind::kStream && !streams_.contains(t))) {
        add("{}  ", indent);
        declaration(*t);
      }
    }
    ops(g, indent);
    add("{}}}\n", indent);
  }

  void op(const Op& op) {
    if (!op.outputs().empty()) add("{} = ", names(op.outputs()));
    add("{}", op.name());
    const auto graphs = op.calledGraphs();
    for (const Graph* g : graphs) add(" {}", graphText(g->id()));
    if (!graphs.empty()) {
      add("({})", names(op.inputs()));
    } else if (!op.inputs().empty()) {
      add(" {}", names(op.inputs()));
    }
    attrs(op);
    settings(op);
    if (!op.declaredModified().empty()) add(" modified({})", fmt::join(op.declaredModified(), ", "));
    if (!op.after().empty()) {
      add(" after(");
      for (size_t i = 0; i < op.after().size(); ++i) add("{}{}", i == 0 ? "" : ", ", label(*op.after()[i]));
      add(")");
    }
    for (size_t i = 0; i < op.outputs().size(); ++i) {
      add("{}{}", i == 0 ? " : " : ", ", typeText(op.outputs()[i]->type()));
    }
  }

 private:
  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(args)...);
  }

  void endLine(const Loc& loc) {
    if (options_.locations && loc.known()) add(" {}", locText(loc));
    add("\n");
  }

  static std::string header(const Ir& ir) {
    std::string out;
    const auto item = [&](std::string_view name, const std::string& value) {
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value);
    };
    if (ir.hostTransfers() != 1) item("host_transfers", fmt::format("{}", ir.hostTransfers()));
    if (const std::string text = print(ir.options()); !text.empty()) out += (out.empty() ? "" : ", ") + text;
    int64_t lastId = -1;
    for (const Graph* g : ir.graphs()) {
      for (const Op* op : g->ops()) lastId = std::max(lastId, op->id());
    }
    const auto [ops, tensors, graphs] = ir.counters();
    // What a parser counts up to by itself is not written.
    if (ops != lastId + 1 || tensors != 0 || graphs != 0) {
      item("counters", fmt::format("[{}, {}, {}]", ops, tensors, graphs));
    }
    return out.empty() ? out : " (" + out + ')';
  }

  template <typename Tensors>
  static std::string names(const Tensors& tensors) {
    std::string out;
    for (const Tensor* t : tensors) {
      if (!out.empty()) out += ", ";
      out += t == nullptr ? "_" : tensorText(t->name());
    }
    return out;
  }

  static std::string label(const Op& op) {
    return op.outputs().empty() ? fmt::format("#{}", op.id()) : tensorText(op.output()->name());
  }

  void input(const Tensor& t, bool first) {
    add("{}{}: {}{}", first ? "" : ", ", tensorText(t.name()), typeText(t.type()), t.byRef() ? " byref" : "");
    if (options_.locations && t.loc().known()) add(" {}", locText(t.loc()));
  }

  void declaration(const Tensor& t) {
    const bool variable = t.kind() == TensorKind::kVariable;
    const std::string_view kind = variable                            ? "variable"
                                  : t.kind() == TensorKind::kConstant ? "constant"
                                                                      : "stream_handle";
    add("{} = {} {}", tensorText(t.name()), kind, typeText(t.type()));
    const VariableSettings& s = t.settings();
    if (!s.groupOf.empty() || s.numGroups != 1)
      add(" groups({}: [{}])", s.numGroups, fmt::join(s.groupOf, ", "));
    if (s.retrieveAllReplicas) add(" retrieve_all");
    if (s.remoteBuffer != 0 || s.remoteEntry != 0) {
      add(" remote({}, {}", s.remoteBuffer, s.remoteEntry);
      if (!s.shardOf.empty()) add(", shards [{}]", fmt::join(s.shardOf, ", "));
      add(")");
    }
    if (t.data() != nullptr) data(t);
    endLine(t.loc());
  }

  void data(const Tensor& t) {
    const HostData& host = *t.data();
    const std::span<const std::byte> bytes(host.bytes, static_cast<size_t>(host.size));
    const auto width = static_cast<size_t>(sizeOf(t.dtype()));
    const bool whole = !bytes.empty() && bytes.size() % width == 0;
    if (host.size > options_.elideDataAbove) return add(" elided({} bytes)", host.size);
    if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
      return add(" zeros");
    if (whole && bytes.size() > width &&
        std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(width), bytes.end(), bytes.begin())) {
      if (const auto text = elementText(t.dtype(), bytes.data())) return add(" full({})", *text);
    }
    std::string list;
    bool listed = whole && static_cast<int64_t>(bytes.size() / width) <= kMaxListed;
    for (size_t at = 0; listed && at < bytes.size(); at += width) {
      const auto text = elementText(t.dtype(), bytes.data() + at);
      listed = text.has_value();
      if (listed) list += (at == 0 ? "" : ", ") + *text;
    }
    if (listed) return add(" [{}]", list);
    add(" base64(\"{}\")", base64(bytes));
  }

  void ops(const Graph& g, std::string_view indent) {
    std::unordered_set<const Op*> labelled;
    for (const Op* op : g.ops()) {
      for (const Op* before : op->after()) {
        if (before->outputs().empty()) labelled.insert(before);
      }
    }
    for (const Op* o : g.ops()) {
      add("{}  ", indent);
      if (o->id() != nextId_ || labelled.contains(o)) add("#{} ", o->id());
      nextId_ = o->id() + 1;
      op(*o);
      endLine(o->loc());
    }
  }

  void attrs(const Op& op) {
    bool first = true;
    for (size_t i = 0; i < op.attrs().size(); ++i) {
      const AttrDef& def = op.def().attrs[i];
      const Attr& value = op.attrs()[i];
      if (sameAttr(value, def.fallback) || std::holds_alternative<Graph*>(value)) continue;
      add("{}{} = {}", first ? " {" : ", ", def.name, attrText(value));
      first = false;
    }
    if (!first) add("}}");
  }

  void settings(const Op& op) {
    const Settings& s = op.settings();
    if (s.ipu == -1) add(" ipu(none)");
    if (s.ipu != -1 && s.ipu != 0) add(" ipu({})", s.ipu);
    if (s.tileSet != TileSet::kUndefined) add(" tiles({})", tileSetText(s.tileSet));
    if (s.context != ExecutionContext::kNormal) add(" context({})", contextText(s.context));
    if (s.scope != nullptr) add(" scope({})", quoted(*s.scope));
  }

  PrintOptions options_;
  fmt::memory_buffer out_;
  std::unordered_set<const Tensor*> streams_;
  int64_t nextId_ = 0;
};

}  // namespace

std::string print(const Ir& ir, const PrintOptions& options) {
  Printer printer(options);
  printer.ir(ir);
  return printer.finish();
}

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  for (const Stream& s : graph.ir().streams()) printer.listStream(s.tensor);
  printer.graph(graph, "");
  return printer.finish();
}

std::string print(const SessionOptions& options) {
  static const SessionOptions kDefaults;
  std::string out;
  for (const OptionDef& def : optionDefs()) {
    const std::string value = optionText(options, def.member);
    if (value == optionText(kDefaults, def.member)) continue;
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", def.name, value);
  }
  return out;
}

std::string Op::str() const {
  Printer printer({});
  printer.op(*this);
  return printer.finish();
}

}  // namespace popxl::ir
