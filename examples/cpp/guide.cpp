// The program of docs/guide/cpp.md: one layer, its gradient, and an update of its weights.

#include <popxl/popxl.h>

#include <cstdio>
#include <vector>

namespace ops = popxl::ops;
using popxl::Tensor;

int main() {
  popxl::Ir ir;
  const auto xStream = ir.h2dStream({{4, 3}}, "x");  // float32 unless said otherwise
  const auto yStream = ir.d2hStream({{4, 2}}, "y");
  {
    const popxl::GraphScope main(ir.mainGraph());
    const popxl::InSequence inOrder;
    const Tensor w = popxl::variable(std::vector<float>(6, 0.5f), {3, 2}, "w");

    const auto layer = ir.createGraph(
        "layer", [](const Tensor& x, const Tensor& weights) { return ops::tanh(ops::matmul(x, weights)); },
        xStream.spec(), w);
    const auto forward = ops::callWithInfo(layer, {ops::hostLoad(xStream), w});
    ops::hostStore(yStream, forward.outputs()[0]);

    const auto gradient = popxl::transforms::autodiff(layer);
    const Tensor dy = popxl::constant(std::vector<float>(8, 1.0f), {4, 2}, "dy");
    const auto backward = ops::callWithInfo(gradient.graph, {dy}, gradient.inputsDict(forward));
    ops::copy_var_update_(w, w - gradient.gradientOf(w, forward, backward) * 0.1);

    const auto steps = popxl::remoteBuffer({{1}});
    popxl::remoteVariable(std::vector<float>{0}, steps, 0, "steps");
    ops::remoteStore(steps, 0, ops::remoteLoad(steps, 0) + 1.0);
  }

  popxl::Session session(ir);
  const std::vector<float> x(12, 0.1f);
  std::vector<float> y(8);
  const auto buffers = popxl::HostBuffers().in(xStream, x).out(yStream, y);
  for (int step = 0; step < 2; ++step) {
    session.run(buffers);
    std::printf("y[0] = %.4f\n", static_cast<double>(y[0]));
  }
  const Tensor w = ir.mainGraph().tensor("w");
  const Tensor steps = ir.mainGraph().tensor("steps");
  std::printf("w[0] = %.4f after %.0f steps\n", static_cast<double>(session.tensorData<float>(w)[0]),
              static_cast<double>(session.tensorData<float>(steps)[0]));

  try {
    session.writeVariable(w, std::vector<float>(5));
  } catch (const popxl::Error& error) {
    std::printf("%s\n", error.what());
  }

  const popxl::Ir same = popxl::Ir::fromText(ir.toText());
  std::printf("%s\n", same.toText() == ir.toText() ? "the same text" : "another text");
}
