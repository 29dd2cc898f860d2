// Fits y = x w + b by gradient descent: one graph for the layer, one for its gradient by autodiff, called
// from a loop body.

#include <popxl/popxl.h>

#include <cmath>
#include <cstdio>
#include <random>

namespace ops = popxl::ops;
using popxl::DType;
using popxl::Tensor;

constexpr int64_t kSamples = 256, kFeatures = 4, kSteps = 200;
constexpr float kRate = 0.1f;

int main() {
  // Data from known weights, with a little noise.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::vector<float> trueWeights = {1.5f, -2.0f, 0.5f, 3.0f};
  const float trueBias = -0.7f;
  std::vector<float> x(kSamples * kFeatures), y(kSamples);
  for (float& value : x) value = normal(random);
  for (size_t i = 0; i < kSamples; ++i) {
    y[i] = trueBias + 0.01f * normal(random);
    for (size_t k = 0; k < kFeatures; ++k) y[i] += x[i * kFeatures + k] * trueWeights[k];
  }

  popxl::Ir ir;
  const popxl::GraphScope main(ir.mainGraph());
  const popxl::InSequence inOrder;
  const auto xStream = ir.h2dStream({{kSamples, kFeatures}}, "x");
  const auto yStream = ir.h2dStream({{kSamples, 1}}, "y");
  const auto lossStream = ir.d2hStream({{}}, "loss");

  Tensor w = popxl::variable(std::vector<float>(kFeatures, 0.0f), {kFeatures, 1}, "w");
  Tensor b = popxl::variable(std::vector<float>{0.0f}, {1}, "b");
  const auto layer = ir.createGraph(
      "layer",
      [](const Tensor& in, const Tensor& weights, const Tensor& bias) {
        return ops::matmul(in, weights) + bias;
      },
      popxl::TensorSpec{{kSamples, kFeatures}}, w, b);

  const Tensor in = ops::hostLoad(xStream);
  const auto forward = ops::callWithInfo(layer, {in, w, b});
  const Tensor error = forward.outputs()[0] - ops::hostLoad(yStream);
  const Tensor loss = ops::mean(error * error);

  // d loss / d prediction = 2 error / samples
  const auto inputs = layer.inputs();
  const auto gradient =
      popxl::transforms::autodiff(layer, {std::nullopt, std::vector<Tensor>{inputs[1], inputs[2]}});
  const auto backward =
      ops::callWithInfo(gradient.graph, {error * (2.0 / kSamples)}, gradient.inputsDict(forward));
  for (const Tensor& parameter : {w, b}) {
    const Tensor step = gradient.gradientOf(parameter, forward, backward);
    ops::copy_var_update_(parameter, parameter - step * kRate);
  }
  ops::hostStore(lossStream, loss);

  popxl::Session session(ir);
  std::vector<float> lossNow(1);
  for (int64_t i = 0; i < kSteps; ++i) {
    session.run(popxl::HostBuffers().in(xStream, x).in(yStream, y).out(lossStream, lossNow));
    if (i % 50 == 0)
      std::printf("step %3ld  loss %.6f\n", static_cast<long>(i), static_cast<double>(lossNow[0]));
  }
  const auto learnt = session.tensorData<float>(w);
  const float bias = session.tensorData<float>(b)[0];
  std::printf("w = %.3f %.3f %.3f %.3f  b = %.3f  loss %.6f\n", static_cast<double>(learnt[0]),
              static_cast<double>(learnt[1]), static_cast<double>(learnt[2]), static_cast<double>(learnt[3]),
              static_cast<double>(bias), static_cast<double>(lossNow[0]));
  float worst = std::fabs(bias - trueBias);
  for (size_t k = 0; k < kFeatures; ++k) worst = std::max(worst, std::fabs(learnt[k] - trueWeights[k]));
  return worst < 0.01f ? 0 : 1;
}
