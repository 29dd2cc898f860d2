"""Training whose optimiser state is kept in a file, with a quarter of it in RAM, beside the same with all in RAM."""

import pathlib
import statistics
import tempfile
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import popxl
import remote_adam

if TYPE_CHECKING:
    from report import Report

LAYERS, WIDTH, BATCH = 12, 1024, 1024
ROUNDS = 9


def table(report: "Report") -> None:
    state = 2 * LAYERS * WIDTH * WIDTH * 4
    with tempfile.TemporaryDirectory() as folder, ExitStack() as attached:
        root = pathlib.Path(folder)
        storages = {
            "RAM": None,
            "a file": popxl.RemoteStorage(root / "a", state // 4),
            "a file, each step to the disk": popxl.RemoteStorage(root / "b", state // 4, sync_every_run=True),
        }
        trainings = {what: remote_adam.Training(LAYERS, WIDTH, BATCH, storage=s) for what, s in storages.items()}
        for training in trainings.values():
            attached.enter_context(training.session)
        times: dict[str, list[float]] = {what: [] for what in trainings}
        for step in range(ROUNDS + 2):
            data = trainings["RAM"].data(step)
            losses = set()
            for what, training in trainings.items():
                inputs = dict(zip((training.x, training.y), data.values()))
                begun = time.perf_counter()
                losses.add(training.run(inputs))
                if step >= 2:
                    times[what].append(time.perf_counter() - begun)
            assert len(losses) == 1, "where the state is kept changes the training"
    seconds = {what: statistics.median(own) for what, own in times.items()}
    for what, s in seconds.items():
        line = f"training with {state / 1e6:.0f} MB of Adam's state in {what}"
        bound = "" if what == "RAM" else f", {state / 4e6:.0f} MB of it in RAM"
        ratio = s / seconds["RAM"]
        report.add(f"{line}{bound}: {s * 1e3:.1f} ms a step, {ratio:.2f} x of all in RAM", work="remote", where=what, ms=s * 1e3, ratio=ratio)
    print()
