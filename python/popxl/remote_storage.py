"""Where sessions keep remote buffers."""

import os
from dataclasses import dataclass
from typing import Union

from popxl import _core


@dataclass(frozen=True)
class RemoteStorage:
    """Remote buffers in files.

    ```python
    storage = popxl.RemoteStorage("/data/optimiser-state", ram_bytes=2 << 30)
    with popxl.Session(ir, remote_storage=storage) as session:
        session.run()
    ```

    Attributes:
        directory: The folder of the files, made if need be. There is one for each process of a program.
        ram_bytes: The most RAM that entries take. What is loaded next is read beside the run, as the run before did
            it; what was stored is written beside it.
        sync_every_run: Whether each run ends with its data on the disk, where they outlive a failure of power.
            Without it they outlive the end of the process, however it ends.
    """

    directory: Union[str, "os.PathLike[str]"]
    ram_bytes: int = 256 << 20
    sync_every_run: bool = False


def _as_remote_storage(
    given: Union[None, str, "os.PathLike[str]", RemoteStorage],
) -> "_core.RemoteStorage":
    if given is None:
        return _core.RemoteStorage("", 0, False)
    storage = given if isinstance(given, RemoteStorage) else RemoteStorage(given)
    directory = os.fspath(storage.directory)
    if not directory:
        raise ValueError("`remote_storage` names no folder; None keeps remote buffers in RAM.")
    return _core.RemoteStorage(directory, storage.ram_bytes, storage.sync_every_run)
