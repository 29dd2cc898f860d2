#include <popxl/dtype.h>

#include <iostream>

int main() {
  const auto dtype = popxl::dtypeFromName("float16");
  std::cout << popxl::nameOf(dtype) << " " << popxl::sizeOf(dtype) << "\n";
}
