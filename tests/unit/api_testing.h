#pragma once

#include <gtest/gtest.h>
#include <popxl/popxl.h>

#include <string>
#include <vector>

namespace popxl {

using Floats = std::vector<float>;

/// Message of the Error of `kind` that `body` throws.
template <typename Body>
std::string errorOf(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// A program whose main graph is entered, in order, with its results.
struct Program {
  Ir ir;
  GraphScope scope{ir.mainGraph()};
  InSequence order;
  HostBuffers buffers;

  void out(const Tensor& t, Floats& to) {
    const Stream stream = ir.d2hStream(t.spec());
    ops::hostStore(stream, t);
    to.resize(static_cast<size_t>(t.numElements()));
    buffers.out(stream, to);
  }
  void run() { Session(ir).run(buffers); }
};

}  // namespace popxl
