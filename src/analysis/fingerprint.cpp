#include "analysis/fingerprint.h"

#include <bit>
#include <concepts>
#include <string>
#include <string_view>

#include "ir/graph_map.h"

namespace popxl::analysis {
namespace {

class Writer {
 public:
  explicit Writer(const ir::Graph& graph) : graph_(graph), numbers_(graph, -1) {}

  std::string run() {
    for (const ir::Tensor* t : graph_.tensors()) {
      if (t->kind() != ir::TensorKind::kActivation) origin(*t);
    }
    for (const ir::Op* op : graph_.ops()) this->op(*op);
    for (const ir::Tensor* t : graph_.outputs()) operand(t);
    return std::move(bytes_);
  }

 private:
  /// Seven bits a byte, the sign first: most numbers are small, and bytes take time to digest.
  void add(std::integral auto number) {
    const auto value = static_cast<int64_t>(number);
    auto rest = static_cast<uint64_t>(value) << 1 ^ (value < 0 ? ~uint64_t{0} : 0);
    for (; rest >= 0x80; rest >>= 7) bytes_ += static_cast<char>(rest | 0x80);
    bytes_ += static_cast<char>(rest);
  }
  void add(std::string_view text) {
    add(text.size());
    bytes_ += text;
  }
  void add(double value) { add(std::bit_cast<int64_t>(value)); }

  template <class T>
  void list(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
  }

  void type(const ir::TensorType& type) {
    add(static_cast<int>(type.dtype));
    list(type.shape);
    list(type.metaShape);
  }

  void number(const ir::Tensor* t) { numbers_[t] = next_++; }

  void operand(const ir::Tensor* t) { add(t == nullptr ? -1 : numbers_[t]); }

  /// Of a tensor that no op makes.
  void origin(const ir::Tensor& t) {
    number(&t);
    add(static_cast<int>(t.kind()));
    add(t.byRef());
    type(t.type());
    const ir::VariableSettings& s = t.settings();
    list(s.groupOf);
    list(s.shardOf);
    for (const int64_t n : {s.numGroups, s.remoteBuffer, s.remoteEntry}) add(n);
    if (t.kind() == ir::TensorKind::kConstant)
      add({reinterpret_cast<const char*>(t.data()->bytes), static_cast<size_t>(t.data()->size)});
  }

  void attribute(const ir::Attr& value) {
    add(value.index());
    std::visit([&](const auto& v) { content(v); }, value);
  }
  void content(const std::monostate&) {}
  void content(const std::vector<int64_t>& values) { list(values); }
  void content(const std::vector<double>& values) { list(values); }
  void content(ir::Graph* const& value) { add(value == nullptr ? std::string_view() : value->id()); }
  void content(const DType& value) { add(static_cast<int>(value)); }
  template <class T>
  void content(const T& value) {
    add(value);
  }

  void op(const ir::Op& op) {
    add(op.def().name);
    add(op.inplace());
    for (const ir::Tensor* t : op.inputs()) operand(t);
    for (const ir::Attr& value : op.attrs()) attribute(value);
    add(static_cast<int>(op.settings().context));
    list(op.declaredModified());
    for (const ir::Op* before : op.after()) add(before->outputs().empty() ? -1 : numbers_[before->output()]);
    for (const ir::Tensor* t : op.outputs()) {
      number(t);
      type(t->type());
    }
  }

  const ir::Graph& graph_;
  std::string bytes_;
  ir::TensorMap<int32_t> numbers_;
  int32_t next_ = 0;
};

}  // namespace

Digest fingerprint(const ir::Graph& graph) { return sha256(Writer(graph).run()); }

}  // namespace popxl::analysis
