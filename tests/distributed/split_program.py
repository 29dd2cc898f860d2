"""A program on 4 replicas with collectives of all kinds. Prints a digest of what each replica of this instance gives,
and of every variable as the host sees it: the same however the replicas are spread over instances."""

import hashlib
import sys

import numpy as np
import popdist
import popxl
import popxl.ops as ops
from popxl.ops import collectives


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def main() -> None:
    replication = "popdist" if popdist.isPopdistEnvSet() else 4
    ir = popxl.Ir(replication=replication)
    assert ir.replication_factor == 4
    local, offset = ir.instance_replication_factor, popdist.getReplicaIndexOffset()
    draw = np.random.default_rng(11).standard_normal
    with ir.main_graph, popxl.in_sequence():
        pairs, strided = ir.replica_grouping(group_size=2), ir.replica_grouping(stride=2, group_size=2)
        shared = popxl.variable(draw((3, 5)).astype(np.float32), name="shared")
        of_pair = popxl.variable(draw((2, 3, 5)).astype(np.float32), name="of_pair", replica_grouping=pairs)
        own = popxl.variable(
            draw((4, 3, 5)).astype(np.float32), name="own", replica_grouping=ir.replica_grouping(group_size=1)
        )
        x_stream = popxl.h2d_stream((3, 5), popxl.float32, name="x")
        y_stream = popxl.d2h_stream((3, 5), popxl.float32, name="y")
        x = ops.host_load(x_stream)
        mean = collectives.replicated_all_reduce(x * own + of_pair, op="mean")
        total = collectives.replicated_all_reduce(mean * own, op="add", group=strided)
        part = collectives.replicated_reduce_scatter(ops.flatten(total), op="add", group=pairs)
        whole = ops.reshape(ops.slice(collectives.replicated_all_gather(part, group=pairs), 0, 15), (3, 5))

        def body(t: popxl.Tensor) -> popxl.Tensor:
            return collectives.replicated_all_reduce(t * 0.5, op="max") + t * 0.25

        (y,) = ops.repeat(ir.create_graph(body, whole), 3, whole)

        def larger(t: popxl.Tensor) -> popxl.Tensor:
            return collectives.replicated_all_reduce(t, op="mul") + 1

        def smaller(t: popxl.Tensor) -> popxl.Tensor:
            return t - 1

        most = collectives.replicated_all_reduce(ops.max(own, 0), op="max")
        positive = ops.greater(ops.max(most, 0), popxl.constant(0.0))
        branches = ir.create_graph(larger, y), ir.create_graph(smaller, y)
        (y,) = ops.conditional(positive, *branches, then_inputs=[y], else_inputs=[y])
        y = y * own
        ops.host_store(y_stream, y)
        handle, shard = popxl.replica_sharded_variable(draw(10).astype(np.float32), popxl.float32, name="sharded")
        shard += collectives.replicated_reduce_scatter(ops.flatten(y)[:10], op="add")
        own += y
        of_pair += collectives.replicated_all_reduce(y, op="add", group=pairs)
        shared += mean
    data = draw((4, 3, 5)).astype(np.float32)[offset : offset + local]
    with popxl.Session(ir, "cpu") as session:
        for _ in range(2):
            outputs = session.run({x_stream: data if local > 1 else data[0]})
        for r, row in enumerate(outputs[y_stream].reshape(local, 3, 5)):
            print(f"replica {offset + r}: {digest(row)}")
        values = session.get_tensors_data([shared, of_pair, own, handle])
        popxl.checkpoint.save(session, sys.argv[1])
        for variable, value in values.items():
            print(f"{variable.name}: {digest(value)}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
