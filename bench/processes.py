"""All-reduce over processes beside mpi4py's on the same bytes. Run by `poprun`; prints seconds by name as JSON."""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import popdist
import popxl
from popxl.ops import collectives

TIMES = 8  #: all-reduces in a run
ROUNDS = 12


def ours(elements: int) -> Callable[[], None]:
    ir = popxl.Ir(replication="popdist")
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.zeros(elements, np.float32))
        for _ in range(TIMES):
            collectives.replicated_all_reduce_(v, "add")
    session = popxl.Session(ir)
    session.__enter__()
    return lambda: session.run() and None


def theirs(elements: int) -> Callable[[], None]:
    data = np.zeros(elements, np.float32)

    def run() -> None:
        for _ in range(TIMES):
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, data)

    return run


def main() -> None:
    results = {}
    for megabytes in (float(n) for n in sys.argv[1:]):
        elements = int(megabytes * 250_000)
        steps = [ours(elements), theirs(elements)]
        times: list[list[float]] = [[], []]
        for round_ in range(ROUNDS + 2):
            for own, step in zip(times, steps):
                MPI.COMM_WORLD.Barrier()
                begun = time.perf_counter()
                step()
                MPI.COMM_WORLD.Barrier()
                if round_ >= 2:
                    own.append((time.perf_counter() - begun) / TIMES)
        results[megabytes] = [statistics.median(own) for own in times]
    if popdist.getInstanceIndex() == 0:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
