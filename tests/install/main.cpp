#include <popxl/popxl.h>

#include <iostream>

int main() {
  popxl::Ir ir;
  const popxl::GraphScope scope(ir.mainGraph());
  const auto w = popxl::variable<float>({1, 2, 3}, {3});
  const auto stream = ir.d2hStream(w.spec());
  popxl::ops::hostStore(stream, popxl::ops::add(w, w));
  std::vector<float> sum(3);
  popxl::Session(ir).run(popxl::HostBuffers().out(stream, sum));
  for (const float x : sum) std::cout << x << " ";
}
