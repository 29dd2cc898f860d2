"""Variables of groups of replicas in all the ways that they can be kept: whole or in shards, on the replicas or in a
remote buffer, brought back for each group or each replica. Every instance checks what its replicas store, and what
the host gets, against NumPy; the number of scenarios is printed."""

import itertools
from typing import Iterator, Optional, Tuple

import numpy as np
import popdist
import popxl
import popxl.ops as ops
from popxl.ops import collectives

REPLICAS, ELEMENTS, RUNS = 8, 10, 2
#: Stride and size of a group; None: no grouping is given.
GROUPS = [None, (1, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (1, 8)]


def scenarios() -> Iterator[Tuple[Optional[Tuple[int, int]], Optional[int], bool, str]]:
    """Groups, number of shards (None: whole), whether the variable is remote, how it comes back."""
    for groups, remote, mode in itertools.product(GROUPS, (False, True), ("one_per_group", "all_replicas")):
        size = REPLICAS if groups is None else groups[1]
        for shards in [None, *(n for n in (2, 4, 8) if size % n == 0)]:
            yield groups, shards, remote, mode


def place_of(replica: int, groups: Optional[Tuple[int, int]]) -> Tuple[int, int]:
    """The group of a replica, and its place among the members."""
    stride, size = groups or (1, REPLICAS)
    block, within = divmod(replica, stride * size)
    return block * stride + within % stride, within // stride


def check(groups: Optional[Tuple[int, int]], shards: Optional[int], remote: bool, mode: str) -> None:
    ir = popxl.Ir(replication="popdist")
    local, offset = ir.instance_replication_factor, popdist.getReplicaIndexOffset()
    places = [place_of(r, groups) for r in range(REPLICAS)]
    count = 1 + max(group for group, _ in places)
    values = np.arange(count * ELEMENTS, dtype=np.float32).reshape(count, ELEMENTS)
    data = values if count > 1 else values[0]
    with ir.main_graph, popxl.in_sequence():
        grouping = None if groups is None else ir.replica_grouping(*groups)
        how = {"replica_grouping": grouping, "name": "w", "retrieval_mode": mode}
        buffer = None
        if shards is not None and remote:
            buffer = popxl.replica_sharded_buffer(data.shape, popxl.float32, grouping, shards)
            whole = popxl.remote_replica_sharded_variable(data, buffer, 0, **how)
        elif shards is not None:
            whole, w = popxl.replica_sharded_variable(data, shard_over=shards, **how)
        elif remote:
            buffer = popxl.remote_buffer((ELEMENTS,), popxl.float32)
            whole = popxl.remote_variable(data, buffer, 0, **how)
        else:
            whole = w = popxl.variable(data, **how)
        if buffer is not None:
            w = ops.remote_load(buffer, 0)
        own, stored = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((ELEMENTS,), popxl.float32)
        ops.add_(w, collectives.replicated_all_reduce(ops.host_load(own), "add", group=grouping))
        if buffer is not None:
            ops.remote_store(buffer, 0, w)
        if shards is not None:
            names = [group * REPLICAS + place // shards for group, place in places]
            order = list(dict.fromkeys(names))
            together = ir.replica_grouping_from_assignments([order.index(n) for n in names])
            w = ops.slice(collectives.replicated_all_gather(w, group=together), 0, ELEMENTS)
        ops.host_store(stored, w)
    steps = np.array([2.0**r for r in range(REPLICAS)], np.float32)
    mine = steps[offset : offset + local]
    expected = values.copy()
    with popxl.Session(ir, "cpu") as session:
        for _ in range(RUNS):
            result = session.run({own: mine if local > 1 else mine[0]})[stored].reshape(local, ELEMENTS)
            for replica, (group, _) in enumerate(places):
                expected[group] += steps[replica]
            np.testing.assert_array_equal(result, [expected[places[offset + r][0]] for r in range(local)])
        have = session.get_tensor_data(whole)
    each = mode == "all_replicas" and count < REPLICAS
    rows = expected[[group for group, _ in places]] if each else expected
    np.testing.assert_array_equal(have, rows if each or count > 1 else rows[0])


def main() -> None:
    number = 0
    for scenario in scenarios():
        try:
            check(*scenario)
        except Exception as error:
            raise AssertionError(f"scenario {scenario}") from error
        number += 1
    print(f"{number} scenarios", flush=True)


if __name__ == "__main__":
    main()
