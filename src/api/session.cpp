#include "popxl/session.h"

#include <cstring>

#include "api/make_op.h"
#include "base/error.h"
#include "exec/session.h"

namespace popxl {
namespace {

void checkDType(std::optional<DType> given, DType wanted, const std::string& what) {
  if (given && *given != wanted)
    fail(ErrorKind::kType, "{} has dtype {}, not {}", what, nameOf(wanted), nameOf(*given));
}

}  // namespace

HostBuffers& HostBuffers::add(const Stream& stream, bool toDevice, std::optional<DType> dtype, void* data,
                              int64_t count) {
  if (stream.toDevice() != toDevice) {
    fail(ErrorKind::kValue, "stream `{}` is {} the host", stream.name(), toDevice ? "to" : "from");
  }
  checkDType(dtype, stream.spec().dtype, "stream `" + stream.name() + "`");
  const int64_t unit = numElements(stream.spec().shape) * (dtype ? 1 : sizeOf(stream.spec().dtype));
  if (unit > 0 && count % unit != 0) {
    fail(ErrorKind::kValue, "stream `{}` takes {} {} a transfer, {} are no multiple of that", stream.name(),
         unit, dtype ? "elements" : "bytes", count);
  }
  entries_.push_back({stream, data, unit > 0 ? count / unit : INT64_MAX});
  return *this;
}

Session::Session(const Ir& ir, EngineKind engine, const RemoteStorage& storage)
    : session_(std::make_unique<exec::Session>(ir.get(), engine, storage)) {
  session_->attach();
  session_->weightsFromHost();
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::run(const HostBuffers& buffers) {
  const ir::Ir& ir = *session_->ir();
  const int64_t transfers = ir.hostTransfers(), replicas = ir.instanceReplicationFactor();
  std::vector<exec::StreamBuffer> given;
  for (const HostBuffers::Entry& e : buffers.entries_) {
    if (e.stream.ir() != session_->ir()) {
      fail(ErrorKind::kValue, "stream `{}` belongs to another Ir than the session", e.stream.name());
    }
    if (e.tensors / replicas < transfers) {
      fail(ErrorKind::kValue,
           "stream `{}` has data for {} transfers, a run makes {} on each of {} replica(s)", e.stream.name(),
           e.tensors, transfers, replicas);
    }
    given.push_back({e.stream.name(), e.data, e.tensors / replicas});
  }
  if (!lost_.empty()) {
    fail(ErrorKind::kDevice,
         "the last run failed half way; write variable `{}` and all others again before the next run",
         *lost_.begin());
  }
  hostIsBehind_ = true;
  try {
    session_->run(given);
  } catch (...) {
    // Half way: the host has no newer values than those of its last read or write, which may be many runs
    // old.
    if (session_->failed()) {
      for (const auto& [variable, place] : session_->program().variablePlaces) lost_.insert(variable->name());
      for (const auto& remote : session_->program().remoteVariables) lost_.insert(remote.tensor->name());
      if (lost_.empty()) session_->weightsFromHost();  // nothing to write: nothing is lost
      hostIsBehind_ = false;
    }
    throw;
  }
}

/// How many Ts, or bytes without a dtype, the host memory of a variable or constant holds.
int64_t Session::count(const Tensor& t, std::optional<DType> dtype) const {
  if (!t || !t.get()->isPersistent()) {
    fail(ErrorKind::kType, "tensor `{}` is not of type Constant or Variable", t ? t.id() : "");
  }
  if (t.ir() != session_->ir())
    fail(ErrorKind::kValue, "tensor `{}` belongs to another Ir than the session", t.id());
  checkDType(dtype, t.dtype(), "tensor `" + t.id() + "`");
  return t.get()->data()->size / (dtype ? sizeOf(t.dtype()) : 1);
}

/// Brings the host's memory of the variables up to date.
void Session::fetch() {
  if (hostIsBehind_) session_->weightsToHost();
  hostIsBehind_ = false;
}

void Session::read(const Tensor& t, void* to) {
  if (lost_.contains(t.name())) {
    fail(ErrorKind::kDevice, "variable `{}` may be half updated by the run that failed; write it first",
         t.id());
  }
  fetch();
  const ir::HostData& data = *t.get()->data();
  if (data.size > 0) std::memcpy(to, data.bytes, static_cast<size_t>(data.size));
}

void Session::write(const Tensor& t, std::optional<DType> dtype, const void* from, int64_t given) {
  if (!t || t.get()->kind() != ir::TensorKind::kVariable) {
    fail(ErrorKind::kType, "tensor `{}` is not of type Variable", t ? t.id() : "");
  }
  const int64_t wanted = count(t, dtype);
  if (given != wanted) {
    fail(ErrorKind::kValue, "variable `{}` has {} {}, {} are given", t.id(), wanted,
         dtype ? "elements" : "bytes", given);
  }
  fetch();
  const ir::HostData& data = *t.get()->data();
  if (data.size > 0) std::memcpy(data.bytes, from, static_cast<size_t>(data.size));
  lost_.erase(t.name());
  if (lost_.empty()) session_->weightsFromHost();
}

void Session::startProfile(const std::optional<MachinePeaks>& peaks) { session_->startProfile(peaks); }
Profile Session::stopProfile() { return session_->stopProfile(); }

void Session::flushRemoteBuffers() { session_->flushRemoteBuffers(); }

MemoryReport Session::memory() const { return session_->memory(); }

std::string Session::programText() const { return session_->program().str(); }

}  // namespace popxl
