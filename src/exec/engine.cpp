#include "exec/engine.h"

#include <algorithm>

#include "base/error.h"

namespace popxl::exec {

int64_t tripCount(const ir::Op& op, int64_t trips) {
  const int64_t most = op.attr<int64_t>("repeat_count");
  if (trips > most) {
    fail(ErrorKind::kNumeric,
         "`{}` at {} was asked to run {} times; it was made to run {} times at most: raise its bound",
         op.name(), op.loc().str(), trips, most);
  }
  return std::max<int64_t>(trips, 0);
}

std::byte* StreamCursor::take(const ir::Stream& stream, const ir::Op& op, int64_t replica, int64_t replicas) {
  if (next >= entries) {
    fail(ErrorKind::kValue,
         "stream `{}` has {} entries, and `{}` at {} asks for one more; make num_host_transfers the number "
         "of times that a run uses the stream",
         stream.id(), entries, op.name(), op.loc().str());
  }
  return data + (next++ * replicas + replica) * stream.tensor->type().bytes();
}

}  // namespace popxl::exec
