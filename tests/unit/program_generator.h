#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/loop.h"
#include "ops/ops.h"

namespace popxl::testing {

using ir::Attr;
using ir::Graph;
using ir::Tensor;

/// What random programs may hold.
struct GeneratorOptions {
  DType real = DType::kFloat64;
  bool inplace = true;          ///< in-place ops, by-reference inputs, var updates
  bool differentiable = false;  ///< only ops with a smooth gradient, on floats
  int depth = 2;                ///< nesting of graphs
  int replicas = 1;             ///< with more, collectives over any groups of them
};

/// Draws a program from a seed, op by op, in the current order.
class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options)
      : ir(ir::Ir::create(ops::table())), options_(options), random_(seed) {
    ir->options().enableInplaceAmbiguityChecking = true;
    ir->options().enableReplicatedGraphs = options.replicas > 1;
    ir->options().replicatedGraphCount = options.replicas;
  }

  /// Loads, variables and random ops in the main graph; results and some values on the way are stored.
  void makeMain() {
    auto& context = ir::Context::current();
    context.pushGraph(ir->mainGraph());
    const bool ordered = options_.inplace || below(2) == 0;
    if (ordered) context.pushSequence(ir::SequenceMode::kOrdered);
    Scope scope;
    for (int i = 0; i < 3; ++i) load(scope, i == 2 ? DType::kInt32 : options_.real);
    for (int i = 0; i < 3; ++i) variable(scope, i == 2 ? DType::kInt32 : options_.real);
    const int ops = 8 + below(25);
    for (int i = 0; i < ops; ++i) {
      step(scope, 0);
      if (below(6) == 0) store(any(scope));
    }
    for (int i = 0; i < 4; ++i) store(any(scope));
    store(scope.tensors.back());
    if (ordered) context.popSequence();
    context.popGraph();
  }

  /// A graph of `inputs` random inputs, `ops` ops and some outputs.
  Graph& makeGraph(int depth, int inputs, int ops) {
    Graph& g = ir->createGraph("g");
    ir::Context::current().pushGraph(g);
    Scope scope;
    for (int i = 0; i < inputs; ++i) {
      const DType dtype = options_.differentiable || below(3) > 0 ? options_.real : DType::kInt32;
      Tensor* t = g.addInput("x", {dtype, shape(), {}}, options_.inplace && below(3) == 0);
      add(scope, t, t);
    }
    for (int i = 0; i < ops; ++i) step(scope, depth);
    const int outputs = 1 + below(inputs);
    for (int i = 0; i < outputs; ++i) g.addOutput(i == 0 ? lastReal(scope) : any(scope));
    ir::Context::current().popGraph();
    return g;
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  std::shared_ptr<ir::Ir> ir;
  std::map<std::string, std::vector<double>> loads, variables;

 private:
  struct Scope {
    std::vector<Tensor*> tensors;
    std::map<const Tensor*, const Tensor*> root;  // whose memory a tensor is
  };

  void add(Scope& s, Tensor* t, const Tensor* root) {
    s.tensors.push_back(t);
    const auto known = s.root.find(root);
    s.root[t] = known == s.root.end() ? root : known->second;
  }
  Tensor* any(const Scope& s) {
    const auto n = static_cast<int>(s.tensors.size());
    return s.tensors[static_cast<size_t>(std::max(below(n), below(n)))];  // rather a recent one
  }
  Tensor* pick(const Scope& s, const std::function<bool(const Tensor*)>& right) {
    for (int i = 0; i < 12; ++i) {
      if (Tensor* t = any(s); right(t)) return t;
    }
    return nullptr;
  }
  Tensor* lastReal(const Scope& s) {
    for (size_t i = s.tensors.size(); i-- > 0;) {
      if (s.tensors[i]->dtype() == options_.real) return s.tensors[i];
    }
    return s.tensors.back();
  }
  Tensor* ofType(const Scope& s, DType dtype) {
    return pick(s, [&](const Tensor* t) { return t->dtype() == dtype; });
  }
  DType number() { return options_.differentiable || below(3) > 0 ? options_.real : DType::kInt32; }
  Shape shape() {
    static const Shape kShapes[] = {{}, {4}, {3, 4}, {3, 1}, {4, 3}, {1, 4}, {2, 3, 4}, {3, 4}, {4, 4}};
    return kShapes[below(std::size(kShapes))];
  }
  std::vector<double> values(DType dtype, int64_t n) {
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i) {
      const double unit = std::uniform_real_distribution<double>(-2, 2)(random_);
      out.push_back(dtype == DType::kInt32  ? std::floor(unit * 3)
                    : dtype == DType::kBool ? unit > 0
                                            : static_cast<float>(unit));
    }
    return out;
  }

 public:
  static std::vector<std::byte> bytesOf(const std::vector<double>& values, DType dtype) {
    std::vector<std::byte> out(values.size() * static_cast<size_t>(sizeOf(dtype)));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto put = [&](auto x) { std::memcpy(out.data() + i * sizeof(x), &x, sizeof(x)); };
      if (dtype == DType::kFloat64) put(values[i]);
      if (dtype == DType::kFloat32) put(static_cast<float>(values[i]));
      if (dtype == DType::kInt32) put(static_cast<int32_t>(values[i]));
      if (dtype == DType::kBool) put(values[i] != 0);
    }
    return out;
  }
  std::vector<Tensor*> makeAll(std::string_view name, std::vector<Tensor*> inputs,
                               std::vector<Attr> attrs = {}) {
    bool inplace = false;
    const ir::OpDef* def = ops::table().find(name, &inplace);
    if (def == nullptr) throw std::logic_error("no op " + std::string(name));
    return ir::Context::current().addOp(*def, std::move(inputs), std::move(attrs), {}, inplace)->outputs();
  }
  Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) {
    return makeAll(name, std::move(inputs), std::move(attrs)).front();
  }

 private:
  std::shared_ptr<ir::HostData> data(const std::vector<double>& v, DType dtype) {
    const auto bytes = bytesOf(v, dtype);
    auto d = ir::HostData::allocate(static_cast<int64_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), d->bytes);
    return d;
  }
  void load(Scope& s, DType dtype) {
    const ir::TensorType type{dtype, shape(), {}};
    const auto& stream = ir->addStream("in", type, ir::StreamDirection::kHostToDevice);
    loads[stream.id()] = values(dtype, type.numElements() * options_.replicas);
    Tensor* t = make("host_load", {make("init", {}, {Attr(type.shape), Attr(dtype)})}, {Attr(stream.id())});
    add(s, t, t);
  }
  void variable(Scope& s, DType dtype) {
    const ir::TensorType type{dtype, shape(), {}};
    ir::VariableSettings settings;
    if (options_.replicas > 1 && below(3) > 0) {
      for (const int64_t group : grouping()) settings.groupOf.push_back(static_cast<int32_t>(group));
      settings.numGroups = 1 + *std::max_element(settings.groupOf.begin(), settings.groupOf.end());
    }
    const auto v = values(dtype, type.numElements() * settings.numGroups);
    Tensor* t = ir->mainGraph().addVariable("w", type, data(v, dtype));
    t->settings() = settings;
    variables[t->name()] = v;
    add(s, t, t);
  }
  void store(Tensor* t) {
    const auto& stream = ir->addStream("out", t->type(), ir::StreamDirection::kDeviceToHost);
    const ir::OpDef* def = ops::table().find("host_store");
    ir::Context::current().addOp(*def, {t}, {Attr(stream.id())}, {});
  }
  Tensor* constant(DType dtype, const Shape& of) {
    return ir::Context::current().graph()->addConstant("c", {dtype, of, {}},
                                                       data(values(dtype, numElements(of)), dtype));
  }

  /// One random step; sometimes none, when no operand fits.
  void step(Scope& s, int depth) {
    if (options_.replicas > 1 && below(6) == 0) return collective(s);
    switch (below(options_.differentiable ? 8 : 13)) {
      case 0:
        return unary(s);
      case 1:
      case 2:
        return binary(s);
      case 3:
        return view(s, "");
      case 4:
        return reduction(s);
      case 5:
        return matmul(s);
      case 6:
        return pieces(s);
      case 7:
        return depth < options_.depth ? control(s, depth) : unary(s);
      case 8:
        return logic(s);
      case 9:
        return options_.inplace ? view(s, "_") : clipOrCast(s);
      case 10:
        return clipOrCast(s);
      default:
        return options_.inplace ? writing(s) : binary(s);
    }
  }

  /// Groups of one size, whose members lie anywhere.
  std::vector<int64_t> grouping() {
    std::vector<int> sizes;
    for (int size = 1; size <= options_.replicas; ++size) {
      if (options_.replicas % size == 0) sizes.push_back(size);
    }
    const int size = sizes[static_cast<size_t>(below(static_cast<int>(sizes.size())))];
    std::vector<int64_t> places(static_cast<size_t>(options_.replicas)), groups;
    std::iota(places.begin(), places.end(), int64_t{0});
    std::shuffle(places.begin(), places.end(), random_);
    std::vector<int64_t> seen;  // groups are numbered in order of appearance
    for (const int64_t place : places) {
      const auto known = std::find(seen.begin(), seen.end(), place / size);
      groups.push_back(known - seen.begin());
      if (known == seen.end()) seen.push_back(place / size);
    }
    return groups;
  }

  void collective(Scope& s) {
    Tensor* t = ofType(s, number());
    if (t == nullptr) return;
    const std::vector<int64_t> groups = grouping();
    const int64_t size = std::count(groups.begin(), groups.end(), 0);
    static const char* kKinds[] = {"add", "mean", "max", "min", "and", "or", "add", "square_add"};
    const Attr kind = std::string(kKinds[below(8)]), group = groups;
    switch (below(7)) {
      case 0:
        return result(
            s, make("replicated_all_gather", {t}, {Attr(Shape{size, t->type().numElements()}), group}));
      case 1:
        return result(s, make("replicated_reduce_scatter", {t},
                              {below(2) == 0 ? kind : Attr(std::string("local")), group}));
      case 2:
        return result(
            s, make("replicated_broadcast", {t}, {Attr(int64_t{below(static_cast<int>(size))}), group}));
      case 3: {
        std::vector<int64_t> sources(static_cast<size_t>(options_.replicas));
        std::iota(sources.begin(), sources.end(), int64_t{0});
        std::shuffle(sources.begin(), sources.end(), random_);
        sources[static_cast<size_t>(below(options_.replicas))] = -1;
        return result(s, make("replicated_permute", {t}, {Attr(sources)}));
      }
      case 4:
        if (t->rank() > 0 && t->shape()[0] % size == 0)
          return result(s, make("replicated_all_to_all", {t}, {group}));
        [[fallthrough]];
      case 5:
        if (options_.inplace && writable(s, t))
          return add(s, make("replicated_all_reduce_", {t}, {kind, group}), t);
        [[fallthrough]];
      default:
        return result(s, make("replicated_all_reduce", {t}, {kind, group}));
    }
  }

  void unary(Scope& s) {
    Tensor* t = ofType(s, number());
    if (t == nullptr) return;
    static const char* kSmooth[] = {"tanh", "sin", "cos", "negate", "swish", "tanh"};
    static const char* kOther[] = {"negate", "abs", "relu"};
    const bool smooth = t->dtype() == options_.real && (options_.differentiable || below(2) == 0);
    result(s, make(smooth ? kSmooth[below(6)] : kOther[below(3)], {t}));
  }

  void binary(Scope& s) {
    Tensor* a = ofType(s, number());
    if (a == nullptr) return;
    Shape joint;
    Tensor* b = pick(s, [&](const Tensor* t) {
      return t->dtype() == a->dtype() && broadcastShapes(a->shape(), t->shape(), joint);
    });
    if (b == nullptr || below(5) == 0) b = constant(a->dtype(), below(2) == 0 ? Shape{} : a->shape());
    const int kind = below(5);
    if (kind == 4 && below(2) == 0) return result(s, make("add_n", {a, b, a}));
    if (kind == 4 && a->shape() == b->shape() && a->dtype() == options_.real) {
      return result(s, make("scaled_add", {a, b, nullptr, nullptr}, {Attr(0.5), Attr(-0.75)}));
    }
    if (kind == 3 && a->dtype() == options_.real) b = make("sin", {b});
    result(s, make(kind == 0 ? "sub" : kind == 3 ? "mul" : "add", {a, b}));
  }

  void view(Scope& s, const std::string& suffix) {
    Tensor* t = options_.differentiable ? ofType(s, options_.real) : any(s);
    if (!suffix.empty() && !writable(s, t)) return;
    const auto rank = t->rank();
    const int kind = below(5);
    Tensor* out = nullptr;
    if (kind == 0 && rank > 0) {
      std::vector<int64_t> order(static_cast<size_t>(rank));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::shuffle(order.begin(), order.end(), random_);
      out = make("transpose" + suffix, {t}, {Attr(order)});
    } else if (kind <= 2 && rank > 0) {
      const int64_t axis = below(static_cast<int>(rank)), size = t->shape()[static_cast<size_t>(axis)];
      const int64_t start = below(static_cast<int>(size)), step = 1 + below(2);
      const bool back = below(2) == 0;
      const int64_t stop = back ? -size - 1 : size;
      using Ints = std::vector<int64_t>;
      out = make("slice" + suffix, {t},
                 {Attr(Ints{start}), Attr(Ints{stop}), Attr(Ints{back ? -step : step}), Attr(Ints{axis})});
    } else if (kind == 3 && suffix.empty()) {
      out = rank > 0 && below(2) == 0 ? make("subsample", {t}, {Attr(Shape(static_cast<size_t>(rank), 2))})
                                      : make("identity", {t});
    } else {
      out = make("reshape" + suffix, {t}, {Attr(rank == 1 ? Shape{-1, 1} : Shape{-1})});
    }
    if (suffix.empty()) return add(s, out, out);
    add(s, out, t);
  }

  void reduction(Scope& s) {
    Tensor* t = ofType(s, number());
    if (t == nullptr || t->rank() == 0) return;
    static const char* kKinds[] = {"sum", "mean", "max", "min"};
    const int kinds = options_.differentiable ? 2 : 4;
    int kind = below(kinds);
    if (t->dtype() == DType::kInt32 && kind == 1) kind = 0;
    std::vector<int64_t> axes;
    if (below(3) > 0) axes.push_back(below(static_cast<int>(t->rank())));
    result(s, make(kKinds[kind], {t}, {Attr(axes), Attr(below(2) == 0)}));
  }

  void matmul(Scope& s) {
    Tensor* a = pick(s, [&](const Tensor* t) { return t->dtype() == options_.real && t->rank() == 2; });
    if (a == nullptr) return;
    Tensor* b = pick(s, [&](const Tensor* t) {
      return t->dtype() == options_.real && t->rank() == 2 && t->shape()[0] == a->shape()[1];
    });
    if (b == nullptr) b = constant(options_.real, {a->shape()[1], 3});
    result(s, make("tanh", {make("matmul", {a, b})}));
  }

  void pieces(Scope& s) {
    Tensor* t = options_.differentiable ? ofType(s, options_.real) : any(s);
    if (t == nullptr || t->rank() == 0) return;
    const int64_t axis = below(static_cast<int>(t->rank())), size = t->shape()[static_cast<size_t>(axis)];
    if (below(2) == 0) {
      Tensor* other = pick(s, [&](const Tensor* u) { return u->type() == t->type(); });
      return result(s, make("concat", {t, other == nullptr ? t : other}, {Attr(axis)}));
    }
    if (size < 2) return;
    for (Tensor* piece : makeAll("split", {t}, {Attr(std::vector<int64_t>{1, size - 1}), Attr(axis)}))
      result(s, piece);
  }

  Tensor* condition(Scope& s, const Shape& of) {
    Tensor* c = pick(s, [&](const Tensor* t) {
      Shape joint;
      return t->dtype() == DType::kBool && broadcastShapes(of, t->shape(), joint) && joint == of;
    });
    return c != nullptr ? c : constant(DType::kBool, below(2) == 0 ? Shape{} : of);
  }

  void logic(Scope& s) {
    const int kind = below(4);
    if (kind == 0) {
      Tensor* a = ofType(s, DType::kBool);
      if (a == nullptr) return;
      Tensor* b = condition(s, a->shape());
      static const char* kKinds[] = {"logical_and", "logical_or"};
      return result(s, below(3) == 0 ? make("logical_not", {a}) : make(kKinds[below(2)], {a, b}));
    }
    Tensor* a = ofType(s, kind == 1 ? DType::kInt32 : options_.real);
    if (a == nullptr) return;
    if (kind == 1)
      return result(s, make(below(2) == 0 ? "greater" : "equal", {a, constant(DType::kInt32, {})}));
    if (kind == 2) return result(s, make("greater", {a, constant(options_.real, {})}));
    Tensor* b =
        pick(s, [&](const Tensor* t) { return t->dtype() == a->dtype() && t->shape() == a->shape(); });
    result(s, make("where", {condition(s, a->shape()), a, b == nullptr ? constant(a->dtype(), {}) : b}));
  }

  void clipOrCast(Scope& s) {
    Tensor* t = any(s);
    const bool real = t->dtype() == options_.real;
    const DType to = real                                           ? options_.real
                     : t->dtype() == DType::kInt32 && below(2) == 0 ? DType::kBool
                                                                    : options_.real;
    if (below(2) == 0) return result(s, make("cast", {t}, {Attr(to)}));
    if (real)
      result(s, make("clip", {t},
                     below(2) == 0 ? std::vector<Attr>{Attr(-1.0), Attr(1.5)} : std::vector<Attr>{}));
  }

  static bool writable(const Scope& s, const Tensor* t) {
    return s.root.at(t)->kind() != ir::TensorKind::kConstant;
  }

  void writing(Scope& s) {
    Tensor* t = ofType(s, number());
    if (t == nullptr || !writable(s, t)) return;
    Shape joint;
    Tensor* x = pick(s, [&](const Tensor* u) {
      return u->dtype() == t->dtype() && broadcastShapes(t->shape(), u->shape(), joint) &&
             joint == t->shape();
    });
    if (x == nullptr || below(6) == 0) x = constant(t->dtype(), below(2) == 0 ? Shape{} : t->shape());
    const bool same = x->shape() == t->shape(), real = t->dtype() == options_.real;
    Tensor* out = nullptr;
    switch (below(8)) {
      case 0:
        out = make("relu_", {t});
        break;
      case 1:
        out = make(real ? "swish_" : "relu_", {t});
        break;
      case 2:
      case 3:
        out = make("add_", {t, x});
        break;
      case 4:
        out = same ? make("copy_var_update_", {t, x}) : make("add_", {t, x});
        break;
      case 5:
        out = same && real ? make("accumulate_", {t, x, nullptr},
                                  {Attr(std::string(below(2) == 0 ? "add" : "moving_average")), Attr(0.5)})
                           : make("relu_", {t});
        break;
      case 6:
        out = real ? make("accumulator_scale_", {t, nullptr}, {Attr(0.5)}) : make("add_", {t, x});
        break;
      default:
        return adam(s, t);
    }
    add(s, out, t);
  }

  void adam(Scope& s, Tensor* t) {
    Tensor* step = pick(
        s, [&](const Tensor* u) { return u->rank() == 0 && u->dtype() == options_.real && writable(s, u); });
    if (step == nullptr || t->dtype() != options_.real || s.root.at(step) == s.root.at(t)) return;
    Tensor* ready =
        make("copy_var_update_", {step, make("clip", {make("abs", {step})}, {Attr(1.0), Attr(9.0)})});
    add(s, ready, step);
    if (below(2) == 0) t = make("mul", {t, make("sin", {ready})});
    Tensor* v = make("abs", {t});
    Tensor* out = make("adam_updater", {t, v, nullptr, step, nullptr, nullptr, nullptr, nullptr},
                       {Attr(std::string("adam")), {}, Attr(0.5), Attr(0.25), Attr(0.125)});
    add(s, out, out);
  }

  /// Operands for a graph's inputs; memory that the graph may write is given once.
  std::vector<Tensor*> operands(
      Scope& s, const Graph& g,
      const std::function<Shape(size_t, const Shape&)>& shapeOf = [](size_t, const Shape& own) {
        return own;
      }) {
    std::vector<Tensor*> out;
    std::set<const Tensor*> written;
    for (const Tensor* in : g.inputs()) {
      const Shape shape = shapeOf(out.size(), in->shape());
      Tensor* t = pick(s, [&](const Tensor* u) {
        return u->dtype() == in->dtype() && u->shape() == shape &&
               (!in->byRef() || (writable(s, u) && !written.contains(s.root.at(u))));
      });
      if (t == nullptr) {
        t = constant(in->dtype(), shape);
        if (in->byRef()) t = make("negate", {t});
        if (t->type().numElements() > 0) add(s, t, t);
      }
      if (in->byRef() && s.root.contains(t)) written.insert(s.root.at(t));
      out.push_back(t);
    }
    return out;
  }

  void control(Scope& s, int depth) {
    if (graphs_.empty() || below(2) == 0)
      graphs_.push_back({&makeGraph(depth + 1, 1 + below(3), 2 + below(6)), depth + 1});
    const auto& [g, level] = graphs_[static_cast<size_t>(below(static_cast<int>(graphs_.size())))];
    Graph* callee = g;
    if (level <= depth) return;
    switch (below(4)) {
      case 0:
      case 1:
        for (Tensor* t : makeAll("call", operands(s, *callee), {Attr(callee)})) result(s, t);
        return;
      case 2:
        return loop(s, depth);
      default:
        return conditional(s, *callee);
    }
  }

  /// A repeat of any kind: a fixed count, one that a tensor says, or as long as a value stays small.
  void loop(Scope& s, int depth) {
    const int count = below(5), kind = below(4);
    const Body body = makeBody(depth + 1, kind == 0);
    std::vector<Tensor*> inputs = operands(s, *body.graph, [&](size_t i, const Shape& shape) {
      const auto first = static_cast<size_t>(body.carried),
                 last = static_cast<size_t>(body.carried + body.scanned);
      return i >= first && i < last ? ir::stackedShape(count, shape) : shape;
    });
    const std::vector<Attr> attrs = {Attr(body.graph),
                                     Attr(int64_t{count}),
                                     Attr(int64_t{body.stacked}),
                                     Attr(int64_t{body.scanned}),
                                     Attr(kind != 0 && below(2) == 0),
                                     Attr(kind == 0)};
    const bool upTo = kind == 1;
    if (upTo) inputs = prepend(trips(count), std::move(inputs));
    for (Tensor* t : makeAll(upTo ? "repeat_up_to" : "repeat", inputs, attrs)) {
      if (t->type().numElements() > 0) result(s, t);
    }
  }

  /// A tensor that says how often a loop runs: any number up to its bound, or a negative one.
  Tensor* trips(int most) {
    Tensor* t = constant(DType::kInt32, {});
    auto data = ir::HostData::allocate(sizeof(int32_t));
    const int32_t count = below(most + 2) - 1;
    std::memcpy(data->bytes, &count, sizeof(count));
    t->setData(std::move(data));
    return t;
  }

  static std::vector<Tensor*> prepend(Tensor* t, std::vector<Tensor*> more) {
    if (t != nullptr) more.insert(more.begin(), t);
    return more;
  }

  static bool hasByRef(const Graph& g) {
    return std::any_of(g.inputs().begin(), g.inputs().end(), [](const Tensor* t) { return t->byRef(); });
  }

  static bool sameOutputs(const Graph& a, const Graph& b) {
    return std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(),
                      [](const Tensor* x, const Tensor* y) { return x->type() == y->type(); });
  }

  /// The other branch is another graph with outputs of the same types, or the same on other operands.
  void conditional(Scope& s, Graph& g) {
    if (hasByRef(g)) return;
    Graph* other = &g;
    for (const auto& [candidate, level] : graphs_) {
      const bool fits = !hasByRef(*candidate) && sameOutputs(g, *candidate) && below(2) == 0;
      if (fits && level >= levelOf(g)) other = candidate;
    }
    std::vector<Tensor*> all = prepend(condition(s, {}), operands(s, g));
    for (Tensor* t : operands(s, *other)) all.push_back(t);
    for (Tensor* t : makeAll("conditional", all, {Attr(&g), Attr(other)})) result(s, t);
  }

  int levelOf(const Graph& g) const {
    const auto at =
        std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& e) { return e.first == &g; });
    return at->second;
  }

  /// A graph to be repeated: inputs are carried ones, slices, and others; outputs carried ones, and stacked.
  struct Body {
    Graph* graph;
    int carried, scanned, stacked;
  };
  Body makeBody(int depth, bool whileTrue) {
    Graph& g = ir->createGraph("body");
    ir::Context::current().pushGraph(g);
    Scope s;
    if (whileTrue) g.addInput("go_on", {DType::kBool, {}, {}});
    const int inputs = 1 + below(4), first = whileTrue ? 1 : 0;
    for (int i = 0; i < inputs; ++i) {
      Tensor* t = g.addInput("x", {number(), shape(), {}}, options_.inplace && below(3) == 0);
      add(s, t, t);
    }
    const int ops = 1 + below(6);
    for (int i = 0; i < ops; ++i) step(s, depth);
    const int carried = below(inputs + 1);
    if (whileTrue) {
      Tensor* t = ofType(s, options_.real);
      if (t == nullptr) t = constant(options_.real, {});
      g.addOutput(make("greater", {constant(options_.real, {}), make("sum", {t})}));
    }
    for (int i = first; i < first + carried; ++i) {
      const Tensor* in = g.inputs()[static_cast<size_t>(i)];
      Tensor* t =
          pick(s, [&](const Tensor* u) { return u->dtype() == in->dtype() && u->shape() == in->shape(); });
      if (t == nullptr || below(4) == 0) t = make("negate", {g.inputs()[static_cast<size_t>(i)]});
      g.addOutput(t);
    }
    const int stacked = below(3);
    for (int i = 0; i < stacked; ++i) g.addOutput(any(s));
    const int scanned = below(inputs - carried + 1);
    ir::Context::current().popGraph();
    return {&g, first + carried, scanned, stacked};
  }

  void result(Scope& s, Tensor* t) { add(s, t, t); }

  GeneratorOptions options_;
  std::mt19937_64 random_;
  std::vector<std::pair<Graph*, int>> graphs_;
};

}  // namespace popxl::testing
