#include "popxl/session.h"

#include <cstring>

#include "api/make_op.h"
#include "base/error.h"
#include "exec/session.h"

namespace popxl {
namespace {

void checkDType(DType given, DType wanted, const std::string& what) {
  if (given != wanted) fail(ErrorKind::kType, "{} has dtype {}, not {}", what, nameOf(wanted), nameOf(given));
}

}  // namespace

HostBuffers& HostBuffers::add(const Stream& stream, DType dtype, void* data, int64_t elements) {
  checkDType(dtype, stream.spec().dtype, "stream `" + stream.name() + "`");
  const int64_t unit = numElements(stream.spec().shape);
  if (unit > 0 && elements % unit != 0) {
    fail(ErrorKind::kValue, "stream `{}` takes {} elements a transfer, {} are no multiple of that", stream.name(), unit,
         elements);
  }
  entries_.push_back({stream.name(), data, unit > 0 ? elements / unit : INT64_MAX});
  return *this;
}

Session::Session(const Ir& ir) : session_(std::make_unique<exec::Session>(ir.get())) {
  session_->attach();
  session_->weightsFromHost();
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::run(const HostBuffers& buffers) {
  const int64_t transfers = session_->ir()->hostTransfers();
  std::vector<exec::StreamBuffer> given;
  for (const HostBuffers::Entry& e : buffers.entries_) {
    if (e.transfers < transfers) {
      fail(ErrorKind::kValue, "stream `{}` has data for {} transfers, a run makes {}", e.stream, e.transfers, transfers);
    }
    given.push_back({e.stream, e.data, e.transfers});
  }
  hostIsBehind_ = true;
  session_->run(given);
}

void Session::read(const Tensor& t, DType dtype, void* to) {
  if (!t || !t.get()->isPersistent()) {
    fail(ErrorKind::kType, "tensor `{}` is not of type Constant or Variable", t ? t.id() : "");
  }
  checkDType(dtype, t.dtype(), "tensor `" + t.id() + "`");
  if (hostIsBehind_) {
    session_->weightsToHost();
    hostIsBehind_ = false;
  }
  const ir::HostData& data = *t.get()->data();
  std::memcpy(to, data.bytes, static_cast<size_t>(t.get()->type().bytes()));
}

void Session::write(const Tensor& t, DType dtype, const void* from, int64_t elements) {
  if (!t || t.get()->kind() != ir::TensorKind::kVariable) {
    fail(ErrorKind::kType, "tensor `{}` is not of type Variable", t ? t.id() : "");
  }
  checkDType(dtype, t.dtype(), "variable `" + t.id() + "`");
  if (elements != t.numElements()) {
    fail(ErrorKind::kValue, "variable `{}` has {} elements, {} are given", t.id(), t.numElements(), elements);
  }
  if (hostIsBehind_) session_->weightsToHost();
  hostIsBehind_ = false;
  std::memcpy(t.get()->data()->bytes, from, static_cast<size_t>(t.get()->type().bytes()));
  session_->weightsFromHost();
}

MemoryReport Session::memory() const {
  const exec::MemoryReport report = session_->memory();
  return {report.frameBytes, report.variableBytes, report.constantBytes};
}

std::string Session::programText() const { return session_->program().str(); }

}  // namespace popxl
