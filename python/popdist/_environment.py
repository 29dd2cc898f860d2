"""What the launcher told this process of its place among the others, through environment variables."""

import os

TOTAL = "POPDIST_NUM_TOTAL_REPLICAS"
LOCAL = "POPDIST_NUM_LOCAL_REPLICAS"
OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"
IPUS = "POPDIST_NUM_IPUS_PER_REPLICA"
LOCAL_INSTANCE = "POPDIST_LOCAL_INSTANCE_INDEX"


def value(name: str, fallback: int) -> int:
    """Returns a variable as a number, `fallback` when it is not set.

    Raises:
        ValueError: It is no number.
    """
    text = os.environ.get(name)
    if text is None:
        return fallback
    if not text.isdecimal():
        raise ValueError(f"The environment variable {name} must be a number, not {text!r}.")
    return int(text)
