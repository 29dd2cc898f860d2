#include "exec/engine.h"

#include "base/error.h"

namespace popxl::exec {

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
