"""Checkpoints: the variables of a session in safetensors files, which other programs can read too.

```python
popxl.checkpoint.save(session, "step-1000")
popxl.checkpoint.load(session, "step-1000")
```

A program with another number of replicas, other replica groups or another sharding may load them: what is saved is
the value of each variable, not where it was kept.
"""

import json
import os
import pathlib
import zlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple, Union

import numpy as np

from popxl.session import Session
from popxl.tensor import Variable
from popxl.utils import _popxl_to_numpy

#: The parts of a checkpoint and their tensors, named as tools that read safetensors expect it.
_INDEX = "model.safetensors.index.json"
#: Names of dtypes in the files. Other dtypes are kept as bytes, their name in the metadata.
_DTYPES = {
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
}
_BYTES = "U8"


class _Saved(NamedTuple):
    """One tensor of a file."""

    file: pathlib.Path
    offset: int  # of its data in the file
    dtype: str
    shape: Tuple[int, ...]
    groups: int
    checksum: int

    def read(self) -> np.ndarray:
        """Returns its data. ValueError if these are not what was saved."""
        data = np.memmap(self.file, np.uint8, "r", self.offset, (self.size,)) if self.size else np.empty(0, np.uint8)
        if zlib.crc32(data) != self.checksum:
            raise ValueError(f"{self.file} is damaged: the checksum of its data differs.")
        return data

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(_NUMPY[self.dtype]).itemsize


_NUMPY = {**{name: name for name in _DTYPES}, "float8_143": "uint8", "float8_152": "uint8"}


def save(session: Session, path: Union[str, os.PathLike], max_file_bytes: int = 4 << 30) -> None:
    """Saves all variables, remote ones too.

    Until all is written, what was at `path` before stays there, also when the process is killed. When several
    instances run the program, every instance has to call this; the first one writes.

    Args:
        session: The session whose variables are saved; the values are those that `get_tensors_data` gives.
        path: A file if it ends in ".safetensors", else a folder, made if need be.
        max_file_bytes: The most data in one file of a folder, unless a single variable has more.

    Raises:
        OSError: It can't be written.
        popart_runtime_error: The values are lost with a run that failed half way.
    """
    import popdist

    path = pathlib.Path(path)
    rows = {variable.id: (variable, array) for variable, array in _rows(session).items()}
    shared = session.ir.replication_factor > session.ir.instance_replication_factor
    if not shared or popdist.getInstanceIndex() == 0:
        if path.suffix == ".safetensors":
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_file(path, rows)
        else:
            _write_folder(path, rows, max_file_bytes)
    if shared:
        popdist.synchronize()


def load(session: Session, path: Union[str, os.PathLike], strict: bool = True) -> None:
    """Sets variables to what was saved. On an error none has changed.

    A variable that was saved with several replica groups can be loaded with as many, or if all have the same value;
    one that was saved as a single value is given to every group.

    Args:
        session: The session whose variables are set.
        path: What `save` was given.
        strict: Whether the checkpoint must hold exactly the variables of the program. Else those are set that both
            have.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: The variables, a shape, a dtype or the groups differ, or a file is damaged.
    """
    saved = _read_index(pathlib.Path(path))
    variables = {variable.id: variable for variable in session.ir.main_graph.variables}
    if strict and saved.keys() != variables.keys():
        missing, more = sorted(variables.keys() - saved.keys()), sorted(saved.keys() - variables.keys())
        raise ValueError(
            f"{path} does not hold the variables of this program: it lacks {missing} and has {more} more; "
            "load with strict=False to set those that both have."
        )
    names = saved.keys() & variables.keys()
    values = {variables[name]: _fitting(variables[name], saved[name]) for name in names}
    # What is not loaded keeps the value that it has on the device.
    _rows(session)
    for variable, value in values.items():
        _popxl_to_numpy(variable)[...] = value
        session._forget_replica_values(variable)
    if session.is_attached:
        session.weights_from_host()


def _rows(session: Session) -> Dict[Variable, np.ndarray]:
    """The host's own arrays of all variables, up to date: a row for each group where there are several."""
    if session.is_attached and session._host_is_behind:
        session.weights_to_host()
    return {variable: _popxl_to_numpy(variable) for variable in session.ir.main_graph.variables}


def _fitting(variable: Variable, saved: _Saved) -> np.ndarray:
    """The saved value in the variable's dtype and shape on the host. ValueError if it does not fit."""
    if saved.dtype != variable.dtype.name:
        raise ValueError(f"Variable {variable.id} is {variable.dtype.name}; {saved.file} has it as {saved.dtype}.")
    shape = saved.shape if saved.groups == 1 else saved.shape[1:]
    if shape != variable.shape:
        raise ValueError(f"Variable {variable.id} has shape {variable.shape}; {saved.file} has it as {shape}.")
    value = saved.read().view(variable.dtype.as_numpy()).reshape(saved.shape)
    groups = variable._pb_tensor.num_groups
    if saved.groups in (1, groups):
        return value
    rows = value.reshape(saved.groups, -1).view(np.uint8)
    if (rows != rows[0]).any():
        raise ValueError(
            f"Variable {variable.id} was saved with {saved.groups} groups of replicas that have different values; "
            f"it can't be loaded with {groups}."
        )
    return value[0]


Rows = Mapping[str, Tuple[Variable, np.ndarray]]


def _write_folder(path: pathlib.Path, rows: Rows, max_file_bytes: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    tag = os.urandom(4).hex()  # so that no part of another checkpoint in this folder is overwritten
    parts = list(_parts(rows, max_file_bytes))
    files = [f"model-{tag}-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    for file, part in zip(files, parts):
        _write_file(path / file, part)
    index = {
        "metadata": {"total_size": sum(array.nbytes for _, array in rows.values())},
        "weight_map": {name: file for file, part in zip(files, parts) for name in part},
    }
    # From here on this checkpoint is the one in the folder.
    _replace(path / _INDEX, [json.dumps(index, indent=1).encode()])
    for old in path.glob("model-*.safetensors"):
        if old.name not in files:
            old.unlink()


def _parts(rows: Rows, max_file_bytes: int) -> Iterator[Rows]:
    part: Dict[str, Tuple[Variable, np.ndarray]] = {}
    size = 0
    for name, (variable, array) in rows.items():
        if part and size + array.nbytes > max_file_bytes:
            yield part
            part, size = {}, 0
        part[name] = (variable, array)
        size += array.nbytes
    yield part


def _write_file(path: pathlib.Path, rows: Rows) -> None:
    header: Dict[str, Any] = {}
    properties = {}
    end = 0
    for name, (variable, array) in rows.items():
        dtype = variable.dtype.name
        header[name] = {
            "dtype": _DTYPES.get(dtype, _BYTES),
            "shape": array.shape,
            "data_offsets": [end, end + array.nbytes],
        }
        properties[name] = {
            "dtype": dtype,
            "groups": variable._pb_tensor.num_groups,
            "crc32": zlib.crc32(_bytes_of(array)),
        }
        end += array.nbytes
    header["__metadata__"] = {"format": "popxl", "variables": json.dumps(properties)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # data begin at a multiple of 8
    _replace(path, [len(text).to_bytes(8, "little") + text, *(_bytes_of(array) for _, array in rows.values())])


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _replace(path: pathlib.Path, content: List[Any]) -> None:
    """Writes a file beside `path` and then gives it that name, once all of it is on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            for piece in content:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_index(path: pathlib.Path) -> Dict[str, _Saved]:
    if path.suffix == ".safetensors":
        return _read_header(path)
    try:
        index = json.loads((path / _INDEX).read_text())
        # Only names: whatever an index says, its parts are beside it.
        files = {name: pathlib.PurePath(file).name for name, file in index["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / _INDEX} is no index of a checkpoint, or is damaged: {error!r}.") from error
    headers = {file: _read_header(path / file) for file in set(files.values())}
    missing = sorted(name for name, file in files.items() if name not in headers[file])
    if missing:
        raise ValueError(f"{path / _INDEX} names tensors that its files do not have: {missing}.")
    return {name: headers[file][name] for name, file in files.items()}


def _read_header(path: pathlib.Path) -> Dict[str, _Saved]:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(min(length, size))
    try:
        header = json.loads(text)
        properties = json.loads(header.pop("__metadata__")["variables"])
        tensors = {
            name: _Saved(
                path,
                8 + length + entry["data_offsets"][0],
                properties[name]["dtype"],
                tuple(entry["shape"]),
                properties[name]["groups"],
                properties[name]["crc32"],
            )
            for name, entry in header.items()
        }
        end = max((t.offset + t.size for t in tensors.values()), default=8 + length)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no checkpoint of this library, or is damaged: {error!r}.") from error
    if end != size:
        raise ValueError(f"{path} is damaged: it has {size} bytes instead of {end}.")
    return tensors
