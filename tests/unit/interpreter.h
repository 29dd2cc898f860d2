#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/ir.h"

namespace popxl::testing {

/// Elements of a tensor: which cell of a memory each one is. Two tensors that share memory share cells.
struct Cells {
  std::shared_ptr<std::vector<double>> memory;
  std::vector<size_t> at;
};

/// Runs an Ir op by op in order of creation on float64 cells: slow and plain, a reference for compiled
/// programs. An op in place changes the cells of its operand; a view in place is the same cells; all else has
/// cells of its own.
class Interpreter {
 public:
  std::map<std::string, std::vector<double>> streams;    ///< loads read them, stores replace them
  std::map<std::string, std::vector<double>> variables;  ///< by name: values before and after
  double largest = 0;                                    ///< largest magnitude of any result

  void run(const ir::Ir& ir) {
    Frame frame;
    for (const ir::Tensor* t : ir.mainGraph().tensors()) {
      if (t->kind() == ir::TensorKind::kVariable) frame[t] = fresh(variables.at(t->name()));
    }
    runGraph(ir.mainGraph(), frame);
    for (auto& [name, values] : variables) values = read(frame.at(ir.mainGraph().find(name)));
  }

  /// One graph on values of its inputs; values of its outputs.
  std::vector<std::vector<double>> call(const ir::Graph& g, const std::vector<std::vector<double>>& inputs) {
    std::vector<Cells> cells;
    for (const auto& values : inputs) cells.push_back(fresh(values));
    return runCallee(g, cells);
  }

  static std::vector<double> valuesOf(const std::byte* bytes, DType dtype, int64_t n) {
    std::vector<double> out(static_cast<size_t>(n));
    for (size_t i = 0; i < out.size(); ++i) {
      if (dtype == DType::kFloat64) out[i] = reinterpret_cast<const double*>(bytes)[i];
      if (dtype == DType::kFloat32) out[i] = reinterpret_cast<const float*>(bytes)[i];
      if (dtype == DType::kInt32) out[i] = reinterpret_cast<const int32_t*>(bytes)[i];
      if (dtype == DType::kBool) out[i] = static_cast<double>(bytes[i]);
    }
    return out;
  }

 private:
  using Frame = std::map<const ir::Tensor*, Cells>;
  using Values = std::vector<double>;
  using Ints = std::vector<int64_t>;

  static Cells fresh(Values values) {
    Cells c{std::make_shared<Values>(std::move(values)), {}};
    c.at.resize(c.memory->size());
    std::iota(c.at.begin(), c.at.end(), size_t{0});
    return c;
  }
  static Values read(const Cells& c) {
    Values out;
    for (const size_t i : c.at) out.push_back((*c.memory)[i]);
    return out;
  }
  static void write(const Cells& c, const Values& values) {
    for (size_t i = 0; i < values.size(); ++i) (*c.memory)[c.at[i]] = values[i];
  }
  static double wrap(double x, DType dtype) {
    if (dtype != DType::kInt32) return x;
    return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(x))));
  }

  void runGraph(const ir::Graph& g, Frame& f) {
    for (const ir::Tensor* t : g.tensors()) {
      if (t->kind() == ir::TensorKind::kConstant) {
        f[t] = fresh(valuesOf(t->data()->bytes, t->dtype(), t->type().numElements()));
      }
    }
    for (const ir::Op* op : g.ops()) runOp(*op, f);
  }

  std::vector<Values> runCallee(const ir::Graph& g, const std::vector<Cells>& inputs) {
    Frame f;
    for (size_t i = 0; i < inputs.size(); ++i) f[g.inputs()[i]] = inputs[i];
    runGraph(g, f);
    std::vector<Values> out;
    for (const ir::Tensor* t : g.outputs()) out.push_back(read(f.at(t)));
    return out;
  }

  void runOp(const ir::Op& op, Frame& f) {
    const std::string_view name = op.def().name;
    const auto in = [&](size_t i) { return read(f.at(op.input(i))); };
    if (op.def().view != nullptr) {
      const std::vector<size_t> picked = pick(op);
      Cells source = f.at(op.input(0)), result;
      for (const size_t i : picked) result.at.push_back(source.at[i]);
      result.memory = source.memory;
      f[op.output()] = op.inplace() ? result : fresh(read(result));
    } else if (name == "host_load") {
      f[op.output()] = fresh(streams.at(op.attr<std::string>("stream")));
    } else if (name == "host_store") {
      streams[op.attr<std::string>("stream")] = in(0);
    } else if (name == "call" || name == "repeat" || name == "conditional") {
      runControl(op, f);
    } else if (name == "split") {
      split(op, in(0), f);
    } else if (name == "adam_updater") {
      write(f.at(op.input(3)), {in(3)[0] + 1});
      f[op.output()] = fresh(adam(in(0), in(1), in(3)[0]));
    } else {
      std::vector<Values> operands;
      for (size_t i = 0; i < op.inputs().size(); ++i)
        operands.push_back(op.input(i) == nullptr ? Values{} : in(i));
      Values result = compute(op, operands);
      for (double& x : result) {
        x = wrap(x, op.output()->dtype());
        largest = std::max(largest, std::abs(x));
      }
      if (op.inplace()) {
        f[op.output()] = f.at(op.input(0));
        write(f.at(op.input(0)), result);
      } else {
        f[op.output()] = fresh(result);
      }
    }
  }

  static Values adam(const Values& m, const Values& v, double step) {
    Values out;
    for (size_t i = 0; i < m.size(); ++i) {
      out.push_back(m[i] / (1 - std::pow(0.5, step)) /
                    (std::sqrt(v[i] / (1 - std::pow(0.25, step))) + 0.125));
    }
    return out;
  }

  void runControl(const ir::Op& op, Frame& f) {
    const std::string_view name = op.def().name;
    size_t first = 0;
    const ir::Graph* g = op.calledGraphs()[0];
    if (name == "conditional") {
      first = 1;
      if (read(f.at(op.input(0)))[0] == 0) {
        first += g->inputs().size();
        g = op.calledGraphs()[1];
      }
    }
    std::vector<Cells> inputs;
    const size_t carried = name == "repeat" ? g->outputs().size() : 0;
    for (size_t i = 0; i < g->inputs().size(); ++i) {
      const Cells& operand = f.at(op.input(first + i));
      const bool shares = g->inputs()[i]->byRef() && name != "conditional" && i >= carried;
      inputs.push_back(shares ? operand : fresh(read(operand)));
    }
    std::vector<Values> results;
    if (name != "repeat") {
      results = runCallee(*g, inputs);
    } else {
      for (size_t i = 0; i < carried; ++i) results.push_back(read(inputs[i]));
      std::vector<Values> given;
      for (const Cells& input : inputs) given.push_back(read(input));
      for (int64_t k = 0; k < op.attr<int64_t>("repeat_count"); ++k) {
        for (size_t i = carried; i < inputs.size(); ++i) {
          if (!g->inputs()[i]->byRef()) inputs[i] = fresh(given[i]);  // the same in every iteration
        }
        results = runCallee(*g, inputs);
        for (size_t i = 0; i < carried; ++i) inputs[i] = fresh(results[i]);
      }
      for (size_t i = 0; i < carried; ++i) {
        if (g->inputs()[i]->byRef()) write(f.at(op.input(i)), results[i]);
      }
    }
    for (size_t i = 0; i < op.outputs().size(); ++i) f[op.output(i)] = fresh(results[i]);
  }

  // --- places of elements

  static Ints indexOf(int64_t flat, const Shape& shape) {
    Ints index(shape.size());
    for (size_t a = shape.size(); a-- > 0;) {
      index[a] = flat % shape[a];
      flat /= shape[a];
    }
    return index;
  }
  static size_t flatOf(const Ints& index, const Shape& shape) {
    int64_t flat = 0;
    for (size_t a = 0; a < shape.size(); ++a) flat = flat * shape[a] + index[a];
    return static_cast<size_t>(flat);
  }
  /// Element of a tensor of shape `from` that stands at `index` of the shape it is broadcast to.
  static size_t broadcastAt(const Ints& index, const Shape& from) {
    Ints own(from.size());
    for (size_t a = 0; a < from.size(); ++a)
      own[a] = from[a] == 1 ? 0 : index[index.size() - from.size() + a];
    return flatOf(own, from);
  }

  static std::vector<size_t> pick(const ir::Op& op) {
    const std::string_view name = op.def().name;
    const Shape &from = op.input(0)->shape(), &to = op.output()->shape();
    std::vector<size_t> out;
    for (int64_t n = 0; n < op.output()->type().numElements(); ++n) {
      Ints index = indexOf(n, to), source = index;
      if (name == "transpose") {
        const auto& order = op.attr<Ints>("permutation");
        for (size_t a = 0; a < order.size(); ++a) source[static_cast<size_t>(order[a])] = index[a];
      } else if (name == "slice") {
        for (size_t k = 0; k < op.attr<Ints>("axis").size(); ++k) {
          const auto a = static_cast<size_t>(op.attr<Ints>("axis")[k]);
          source[a] = op.attr<Ints>("start")[k] + index[a] * op.attr<Ints>("step")[k];
        }
      } else if (name == "subsample") {
        for (size_t a = 0; a < index.size(); ++a) source[a] = index[a] * op.attr<Ints>("strides")[a];
      } else {
        out.push_back(static_cast<size_t>(n));
        continue;
      }
      out.push_back(flatOf(source, from));
    }
    return out;
  }

  static void split(const ir::Op& op, const Values& x, Frame& f) {
    const auto axis = static_cast<size_t>(op.attr<int64_t>("axis"));
    int64_t begin = 0;
    for (const ir::Tensor* t : op.outputs()) {
      Values piece;
      for (int64_t n = 0; n < t->type().numElements(); ++n) {
        Ints index = indexOf(n, t->shape());
        index[axis] += begin;
        piece.push_back(x[flatOf(index, op.input(0)->shape())]);
      }
      begin += t->shape()[axis];
      f[t] = fresh(piece);
    }
  }

  // --- arithmetic

  static Values compute(const ir::Op& op, const std::vector<Values>& x) {
    const std::string_view name = op.def().name;
    const auto n = static_cast<size_t>(op.output()->type().numElements());
    if (name == "init") return Values(n, 0.0);
    if (name == "concat") return concat(op, x);
    if (name == "matmul") return matmul(op, x);
    if (op.def().reducesAxes) return reduce(op, x[0]);
    Values out;
    for (size_t i = 0; i < n; ++i) {
      const Ints index = indexOf(static_cast<int64_t>(i), op.output()->shape());
      Values operands;
      for (size_t k = 0; k < x.size(); ++k) {
        operands.push_back(op.input(k) == nullptr ? 0.0 : x[k][broadcastAt(index, op.input(k)->shape())]);
      }
      out.push_back(element(op, operands));
    }
    return out;
  }

  static double element(const ir::Op& op, const Values& x) {
    const std::string_view name = op.def().name;
    const double a = x[0], b = x.size() > 1 ? x[1] : 0.0;
    if (name == "add") return a + b;
    if (name == "sub") return a - b;
    if (name == "mul") return a * b;
    if (name == "add_n") return std::accumulate(x.begin(), x.end(), 0.0);
    if (name == "negate") return -a;
    if (name == "abs") return std::abs(a);
    if (name == "relu") return std::max(a, 0.0);
    if (name == "sin") return std::sin(a);
    if (name == "cos") return std::cos(a);
    if (name == "tanh") return std::tanh(a);
    if (name == "swish") return a / (1 + std::exp(-a));
    if (name == "cast") return op.output()->dtype() == DType::kBool ? static_cast<double>(a != 0) : a;
    if (name == "clip") return std::clamp(a, op.attr<double>("min"), op.attr<double>("max"));
    if (name == "greater") return a > b;
    if (name == "equal") return a == b;
    if (name == "logical_and") return a != 0 && b != 0;
    if (name == "logical_or") return a != 0 || b != 0;
    if (name == "logical_not") return a == 0;
    if (name == "where") return a != 0 ? b : x[2];
    if (name == "scaled_add") return op.attr<double>("a_value") * a + op.attr<double>("b_value") * b;
    if (name == "accumulate_") {
      const double f = op.input(2) != nullptr ? x[2] : op.attr<double>("factor");
      return op.attr<std::string>("mode") == "add" ? a + f * b : f * a + (1 - f) * b;
    }
    if (name == "accumulator_scale_") return a * op.attr<double>("factor");
    if (name == "copy_var_update_") return b;
    throw std::logic_error("the interpreter has no " + std::string(name));
  }

  static Values reduce(const ir::Op& op, const Values& x) {
    const Shape& shape = op.input(0)->shape();
    Ints axes = op.attr<Ints>("axes");
    if (axes.empty()) {
      axes.resize(shape.size());
      std::iota(axes.begin(), axes.end(), int64_t{0});
    }
    Shape kept = shape;
    for (const int64_t a : axes) kept[static_cast<size_t>(a)] = 1;
    const auto results = static_cast<size_t>(numElements(kept));
    std::vector<Values> groups(results);
    for (size_t i = 0; i < x.size(); ++i) {
      groups[broadcastAt(indexOf(static_cast<int64_t>(i), shape), kept)].push_back(x[i]);
    }
    Values out;
    const std::string_view name = op.def().name;
    for (const Values& g : groups) {
      const double sum = std::accumulate(g.begin(), g.end(), 0.0);
      if (name == "sum") out.push_back(sum);
      if (name == "mean") out.push_back(sum / static_cast<double>(g.size()));
      if (name == "max") out.push_back(*std::max_element(g.begin(), g.end()));
      if (name == "min") out.push_back(*std::min_element(g.begin(), g.end()));
    }
    return out;
  }

  static Values concat(const ir::Op& op, const std::vector<Values>& x) {
    const auto axis = static_cast<size_t>(op.attr<int64_t>("axis"));
    Values out(static_cast<size_t>(op.output()->type().numElements()));
    int64_t begin = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      for (size_t i = 0; i < x[k].size(); ++i) {
        Ints index = indexOf(static_cast<int64_t>(i), op.input(k)->shape());
        index[axis] += begin;
        out[flatOf(index, op.output()->shape())] = x[k][i];
      }
      begin += op.input(k)->shape()[axis];
    }
    return out;
  }

  static Values matmul(const ir::Op& op, const std::vector<Values>& x) {
    const auto m = static_cast<size_t>(op.input(0)->shape()[0]),
               k = static_cast<size_t>(op.input(0)->shape()[1]);
    const auto n = static_cast<size_t>(op.input(1)->shape()[1]);
    Values out(m * n);
    for (size_t i = 0; i < m * n; ++i) {
      for (size_t j = 0; j < k; ++j) out[i] += x[0][i / n * k + j] * x[1][j * n + i % n];
    }
    return out;
  }
};

}  // namespace popxl::testing
