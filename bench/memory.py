"""Planned memory of the benchmark programs beside what no plan can go below: the most bytes in use at once."""

import popxl

import ours
import work


def sessions_of(key: str) -> list[popxl.Session]:
    """The sessions that a row of the table makes."""
    made: list[popxl.Session] = []
    original = popxl.Session.__init__

    def recorded(self: popxl.Session, *arguments, **options) -> None:
        original(self, *arguments, **options)
        made.append(self)

    popxl.Session.__init__ = recorded
    try:
        step = getattr(ours, key)(work.ALL[key].make())
    finally:
        popxl.Session.__init__ = original
    del step
    return made


def table(report: "Report", keys: list[str] | None = None) -> None:
    print(f"{'planned frame':32} {'MB':>9} {'in use at once':>15}   over")
    for key in keys or work.ALL:
        for session in sessions_of(key):
            memory = session.memory()
            over = memory.frame_bytes / max(memory.live_lower_bound, 1) - 1
            line = f"{key:32} {memory.frame_bytes / 1e6:9.2f} {memory.live_lower_bound / 1e6:15.2f}  {over:5.1%}"
            report.add(line, work=key, frame_bytes=memory.frame_bytes, live_bytes=memory.live_lower_bound, over=over)
    print("aim: at most 5% over\n")
