#include <popxl/popxl.h>

// Ops for the tests of the tools, in a library as a user has it.

using popxl::OpUse;
using popxl::Tensor;

POPXL_OPS(ops) {
  popxl::CustomOp leaky;
  leaky.name = "leaky";
  leaky.operands = {"x"};
  leaky.attrs = {{"alpha", 0.01, "Slope below 0."}};
  leaky.compose = [](const OpUse& use, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{popxl::ops::maximum({in[0], in[0] * use.attr<double>("alpha")})};
  };
  ops.push_back(leaky);

  popxl::CustomOp both;
  both.name = "sum_and_same";
  both.operands = {"a", "b"};
  both.results = {"sum", "same"};
  both.compose = [](const OpUse&, const std::vector<Tensor>& in) {
    const Tensor twice = popxl::ops::byName("leaky", {in[0]}, {{"alpha", 0.5}})[0];
    return std::vector<Tensor>{twice + in[1], in[1]};
  };
  ops.push_back(both);

  popxl::CustomOp doubled;
  doubled.name = "doubled";
  doubled.operands = {"x"};
  doubled.forward = [](const OpUse&, auto in, auto out) {
    const auto x = in[0].template as<float>();
    for (size_t i = 0; i < x.size(); ++i) out[0].template as<float>()[i] = 2 * x[i];
  };
  ops.push_back(doubled);
}
