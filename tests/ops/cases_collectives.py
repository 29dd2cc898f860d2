"""Rows of ops by which replicas exchange values. References get the operands of all replicas."""

import numpy as np

import popxl
from ops.case import EVERY, FLOATS, NUMERIC, Bad, Case, real
from popart import popart_exception
from popxl.context import get_current_context
from popxl.ops import collectives

#: Two groups of two among four replicas, the members next to each other, apart, and neither.
GROUPINGS = {"all": [0, 0, 0, 0], "next": [0, 0, 1, 1], "apart": [0, 1, 0, 1], "mixed": [0, 1, 1, 0]}


def _group(assignment):
    return get_current_context().ir.replica_grouping_from_assignments(assignment)


def _members(assignment):
    return [[r for r, g in enumerate(assignment) if g == group] for group in range(max(assignment) + 1)]


def _per_group(assignment, f):
    """A reference from one that maps the operands of a group's members to their results."""

    def reference(x):
        results = {}
        for members in _members(assignment):
            results.update(zip(members, f(x[members])))
        return np.stack([results[r] for r in range(len(assignment))])

    return reference


def _mean(x):
    mean = np.sum(x, 0) / len(x)
    return mean if x.dtype == np.float64 else np.trunc(mean)


def _truth(reduce):
    return lambda x: reduce(x != 0, 0).astype(x.dtype if x.dtype != bool else bool)


REDUCTIONS = {
    "add": lambda x: np.sum(x, 0),
    "mean": _mean,
    "mul": lambda x: np.prod(x, 0),
    "min": lambda x: np.min(x, 0),
    "max": lambda x: np.max(x, 0),
    "and": _truth(np.all),
    "or": _truth(np.any),
    "square_add": lambda x: np.sum(x * x, 0),
}


def _to_all(reduce):
    return lambda x: [reduce(x)] * len(x)


def _parts(flat, size):
    part = -(-len(flat) // size)
    return np.concatenate([flat, np.zeros(part * size - len(flat), flat.dtype)]).reshape(size, part)


def _scatter(reduce):
    return lambda x: _parts(reduce(x).reshape(-1), len(x))


def _own_parts(x):
    return [_parts(own.reshape(-1), len(x))[k] for k, own in enumerate(x)]


def _all_reduce(op, grouping, **more):
    assignment = GROUPINGS[grouping]
    return Case(
        "replicated_all_reduce",
        lambda t: collectives.replicated_all_reduce(t, op, _group(assignment)),
        [real(4, 3, 5)],
        _per_group(assignment, _to_all(REDUCTIONS[op])),
        f"{op}-{grouping}",
        inplace=lambda t: collectives.replicated_all_reduce_(t, op, _group(assignment)),
        replicas=4,
        **more,
    )


def _ones(*shape):
    return popxl.variable(np.ones(shape, np.float32))


_DTYPES = {"and": (*NUMERIC, "bool"), "or": (*NUMERIC, "bool"), "mean": FLOATS, "mul": FLOATS}
_LINEAR = ("add", "mean")
_NOT_A_GROUPING = Bad(
    lambda: collectives.replicated_all_reduce(_ones(2), group=[0, 1]), TypeError, "must be a popxl.ReplicaGrouping"
)
_NO_REDUCTION = Bad(
    lambda: collectives.replicated_all_reduce(_ones(2), "sub"), ValueError, "no reduction 'sub' .*use one of add"
)


def _other_ir():
    collectives.replicated_all_reduce(_ones(2), group=popxl.Ir(2).replica_grouping())


def _bools():
    return popxl.variable(np.ones(2, bool), popxl.bool)


CASES = [
    *(
        _all_reduce(
            op,
            "all",
            dtypes=_DTYPES.get(op, NUMERIC),
            grad=(0,) if op in _LINEAR else (),
            big=[real(4, 50, 1000)],
        )
        for op in REDUCTIONS
    ),
    *(_all_reduce("add", grouping, grad=(0,)) for grouping in ("next", "apart", "mixed")),
    Case(
        "replicated_all_reduce",
        collectives.replicated_all_reduce,
        [real(3, 4)],
        lambda x: x,
        "one-replica",
        dtypes=NUMERIC,
        grad=(0,),
        bad=[
            _NO_REDUCTION,
            _NOT_A_GROUPING,
            Bad(_other_ir, ValueError, "belongs to another Ir"),
            Bad(lambda: collectives.replicated_all_reduce(1.0), TypeError, "`t` must be a popxl.Tensor"),
            Bad(lambda: collectives.replicated_all_reduce(_bools()), TypeError, "with and or or, not with add"),
        ],
    ),
    *(
        Case(
            "replicated_all_gather",
            lambda t, assignment=assignment: collectives.replicated_all_gather(
                t, 0, _group(assignment), "new_axis"
            ),
            [real(4, 3, 2)],
            _per_group(assignment, lambda x: [x] * len(x)),
            f"new_axis-{name}",
            dtypes=EVERY if name == "mixed" else FLOATS,
            replicas=4,
        )
        for name, assignment in GROUPINGS.items()
    ),
    *(
        Case(
            "replicated_all_gather",
            lambda t, axis=axis: collectives.replicated_all_gather(t, axis, _group(GROUPINGS["next"]), "concat"),
            [real(4, 3, 2, 5)],
            _per_group(GROUPINGS["next"], lambda x, axis=axis: [np.concatenate(list(x), axis)] * len(x)),
            f"axis{axis}",
            replicas=4,
            big=[real(4, 20, 30, 50)],
        )
        for axis in (0, 1, -1)
    ),
    Case(
        "replicated_all_gather",
        lambda t: collectives.replicated_all_gather(collectives.replica_sharded_slice(t)),
        [real(3, 2, 4)],
        lambda x: np.stack([np.concatenate(_own_parts(x))[:8].reshape(2, 4)] * 3),
        "meta_shape",
        replicas=3,
        bad=[
            Bad(
                lambda: collectives.replicated_all_gather(_ones(2), output_shape="meta_shape"),
                ValueError,
                "is no shard: it has no meta-shape",
            ),
            Bad(
                lambda: collectives.replicated_all_gather(_ones(2), output_shape="flat"),
                ValueError,
                "must be one of new_axis, concat, meta_shape, auto, not 'flat'",
            ),
            Bad(lambda: collectives.replicated_all_gather(_ones(2), 1), ValueError, "`axis` 1 is out of range"),
            Bad(lambda: collectives.replicated_all_gather(_ones(2), "0"), ValueError, "`axis` must be an int"),
        ],
    ),
    *(
        Case(
            "replicated_reduce_scatter",
            lambda t, op=op, a=assignment: collectives.replicated_reduce_scatter(t, op, _group(a)),
            [real(4, 5, 3)],
            _per_group(assignment, _scatter(REDUCTIONS[op])),
            f"{op}-{name}",
            dtypes=_DTYPES.get(op, NUMERIC),
            grad=(0,) if op in _LINEAR else (),
            replicas=4,
        )
        for name, assignment, op in [
            *(("all", GROUPINGS["all"], op) for op in REDUCTIONS),
            *((name, assignment, "add") for name, assignment in GROUPINGS.items() if name != "all"),
        ]
    ),
    Case(
        "replicated_reduce_scatter",
        collectives.replicated_reduce_scatter,
        [real(4, 3)],
        lambda x: np.concatenate([np.sum(x, 0), [0]])[:, None],
        "fewer-elements-than-replicas",
        replicas=4,
        grad=(0,),
        bad=[
            Bad(
                lambda: collectives.replicated_reduce_scatter(_ones(2), "no"), ValueError, "no reduction 'no'"
            ),
            Bad(lambda: collectives.replicated_slice(_ones(2), 3), ValueError, "`axis` 3 is out of range"),
        ],
    ),
    Case(
        "replicated_reduce_scatter",
        lambda t: collectives.replica_sharded_slice(t, _group(GROUPINGS["mixed"])),
        [real(4, 3, 3)],
        _per_group(GROUPINGS["mixed"], _own_parts),
        "shard",
        dtypes=EVERY,
        replicas=4,
        big=[real(4, 100, 601)],
    ),
    *(
        Case(
            "replicated_reduce_scatter",
            lambda t, axis=axis: collectives.replicated_slice(t, axis, _group(GROUPINGS["apart"])),
            [real(4, 4, 6)],
            _per_group(
                GROUPINGS["apart"],
                lambda x, axis=axis: [np.split(own, len(x), axis)[k] for k, own in enumerate(x)],
            ),
            f"slice-axis{axis}",
            replicas=4,
        )
        for axis in (0, 1)
    ),
    Case(
        "replicated_reduce_scatter",
        lambda t: collectives.replicated_slice(t, 1),
        [real(4, 3, 4)],
        lambda x: np.stack([x[r, :, r] for r in range(4)]),
        "slice-of-one",
        replicas=4,
    ),
    *(
        Case(
            "replicated_all_to_all",
            lambda t, axis=axis: collectives.replicated_all_to_all(t, axis, _group(GROUPINGS["mixed"])),
            [real(4, 4, 6)],
            _per_group(
                GROUPINGS["mixed"],
                lambda x, axis=axis: [
                    np.concatenate([np.split(own, len(x), axis)[k] for own in x], axis) for k in range(len(x))
                ],
            ),
            f"axis{axis}",
            dtypes=EVERY,
            grad=(0,),
            replicas=4,
            bad=[
                Bad(
                    lambda: collectives.replicated_all_to_all(_ones(3), 1),
                    ValueError,
                    "`axis` 1 is out of range",
                )
            ],
        )
        for axis in (0, 1)
    ),
    Case(
        "replicated_broadcast",
        lambda t: collectives.replicated_broadcast(t, 1, _group(GROUPINGS["mixed"])),
        [real(4, 3, 2)],
        lambda x: x[[3, 2, 2, 3]],
        dtypes=EVERY,
        grad=(0,),
        replicas=4,
        bad=[
            Bad(
                lambda: collectives.replicated_broadcast(_ones(2), 1),
                ValueError,
                "`root` is 1; a group has 1 replicas",
            )
        ],
    ),
    Case(
        "replicated_permute",
        lambda t: collectives.replicated_permute(t, [2, -1, 0, 1]),
        [real(4, 3, 2)],
        lambda x: np.stack([x[2], np.zeros_like(x[0]), x[0], x[1]]),
        dtypes=EVERY,
        grad=(0,),
        replicas=4,
        bad=[
            Bad(
                lambda: collectives.replicated_permute(_ones(2), [0, 0]),
                ValueError,
                "the sources of 2 replicas; the program has 1",
            ),
            Bad(lambda: collectives.replicated_permute(_ones(2), [1]), ValueError, "names replica 1; the program"),
        ],
    ),
    *(
        Case(
            "all_reduce",
            lambda *ts, op=op: collectives.all_reduce(list(ts), [0, 1, 2], op),
            [real(3, 4)] * 3,
            lambda *xs, op=op: [REDUCTIONS[op](np.stack(xs))] * 3,
            op,
            dtypes=_DTYPES.get(op, NUMERIC),
        )
        for op in REDUCTIONS
    ),
    Case(
        "all_reduce",
        lambda *ts: collectives.all_reduce_identical_inputs(list(ts), [0, 1]),
        [real(3, 4)] * 2,
        lambda *xs: list(xs),
        "identical-inputs",
        bad=[
            Bad(lambda: collectives.all_reduce([]), ValueError, "operand `ts` is missing"),
            Bad(lambda: collectives.all_reduce([1.0]), TypeError, "`ts.0.` must be a popxl.Tensor"),
            Bad(lambda: collectives.all_reduce([_ones(2)]), ValueError, "Could not infer the ipu"),
            Bad(lambda: collectives.all_reduce([_ones(2)], [0, 1]), ValueError, "each of the 1 tensors; it has 2"),
            Bad(
                lambda: collectives.all_reduce([_ones(2), _ones(3)], [0, 1]), popart_exception, "must have the"
            ),
        ],
    ),
]
