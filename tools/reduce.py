#!/usr/bin/env python3
"""Makes a program that fails short.

usage: reduce.py [--command CMD] [-o OUT] FILE

FILE is a program in the text form. It fails when its compiled form and the reference engine differ, or when
compiling or running it breaks; with --command, when CMD, in which `{}` stands for the path of a program, ends
with another status than 0. Ops, outputs and graphs are taken out as long as the program fails in the same way.
The result goes to OUT, or to standard output.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Tuple

import numpy as np

import popxl
from popxl import _core

Fails = Callable[[str], bool]

#: One printed op: indent, number, results, what it does and types of results.
_OP = re.compile(r"^(\s+)(?:#\d+ )?((?:%\S+(?:, )?)+) = (.*?) : (.*?)(?: loc\(.*\))?$")
_OUTPUTS = re.compile(r"^(\s*graph .*) -> \(([^)]*)\) (.*)$")


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the tool."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--command", help="what fails; `{}` stands for the path of a program")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args(arguments)
    try:
        return reduce_file(given)
    except (OSError, UnicodeDecodeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


def reduce_file(given: argparse.Namespace) -> int:
    """Does what the arguments ask for; returns the exit status. OSError for files that can't be read or written."""
    fails = by_command(given.command) if given.command else differs
    text = printed(given.file.read_text())
    if text is None or not fails(text):
        print(f"{given.file} does not fail", file=sys.stderr)
        return 1
    text = reduce(text, fails)
    if given.output:
        given.output.write_text(text)
    else:
        print(text, end="")
    return 0


def printed(text: str, passes: List[str] = ()) -> Optional[str]:
    """The program as it prints, after some passes; None where it is no program."""
    try:
        ir = popxl.Ir.from_text(text)
        for name in passes:
            _core.run_pass(ir._pb_ir, name)
        return ir.to_text()
    except Exception:  # whatever is wrong with it, it is not the program that we look for
        return None


def by_command(command: str) -> Fails:
    """Whether a command ends with another status than 0."""

    def fails(text: str) -> bool:
        with tempfile.NamedTemporaryFile("w", suffix=".ir") as file:
            file.write(text)
            file.flush()
            own = command.replace("{}", file.name)
            return subprocess.run(own, shell=True, capture_output=True, check=False).returncode != 0

    return fails


def differs(text: str) -> bool:
    """Whether a program, run in a process of its own, does not do what the reference engine does."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(not same(text))
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def same(text: str) -> bool:
    """Whether compiled program and reference agree, floats to a relative 1e-3."""
    outputs = [run(popxl.Ir.from_text(text), reference) for reference in (True, False)]
    for want, have in zip(*outputs):
        if np.issubdtype(want.dtype, np.inexact):
            bound = 1e-3 * (1 + np.max(np.abs(want), initial=0))
            if not np.allclose(have, want, rtol=0, atol=bound, equal_nan=True):
                return False
        elif not np.array_equal(want, have):
            return False
    return True


def run(ir: popxl.Ir, reference: bool) -> List[np.ndarray]:
    """What the program stores, and its variables, after a run on numbers by a fixed seed."""
    rng = np.random.default_rng(0)
    with popxl.Session(ir, reference=reference) as session:
        inputs = {
            stream: (rng.uniform(-2, 2, entries(ir) + stream.shape)).astype(stream.dtype.as_numpy())
            for stream in sorted(ir.get_all_h2d_streams(), key=lambda s: s.tensor_id)
        }
        outputs = session.run(inputs)
        arrays = [outputs[s] for s in sorted(outputs, key=lambda s: s.tensor_id)]
        variables = [v for v in ir.main_graph.variables if v._pb_tensor.uses]
        data = session.get_tensors_data(variables)
        return [np.array(a) for a in arrays + [data[v] for v in variables]]


def entries(ir: popxl.Ir) -> Tuple[int, ...]:
    """The dimensions that a stream's data has before those of its tensors."""
    return tuple(n for n in (ir.num_host_transfers, ir.instance_replication_factor) if n != 1)


def reduce(text: str, fails: Fails) -> str:
    """The shortest failing program that taking out parts leads to."""
    while True:
        before = text
        for variants in (without_ops, with_zeros, without_outputs):
            text = shrink(text, fails, variants)
        cleaned = printed(text, ["prune", "prune_graphs"])
        if cleaned is not None and len(cleaned) < len(text) and fails(cleaned):
            text = cleaned
        if text == before:
            return text


def shrink(text: str, fails: Fails, variants: Callable[[str], Iterator[str]]) -> str:
    """Goes on with the first variant that fails, until none does."""
    progress = True
    while progress:
        progress = False
        for variant in variants(text):
            canonical = printed(variant)
            if canonical is not None and canonical != text and fails(canonical):
                text, progress = canonical, True
                break
    return text


def without_ops(text: str) -> Iterator[str]:
    """Without a run of lines: long ones first."""
    lines = text.splitlines(keepends=True)
    size = len(lines) // 2
    while size:
        for start in range(0, len(lines) - size + 1, size):
            yield "".join(lines[:start] + lines[start + size :])
        size //= 2


def with_zeros(text: str) -> Iterator[str]:
    """With new tensors in place of the results of an op."""
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        found = _OP.match(line)
        if found is None or found[3].startswith(("init", "variable", "constant", "stream_handle")):
            continue
        results = found[2].split(", ")
        types = re.findall(r"(\w+) (\([^)]*\))", found[4])
        made = []
        for name, (dtype, shape) in zip(results, types):
            sizes = ", ".join(re.findall("[0-9]+", shape))
            made.append(f"{found[1]}{name} = init {{shape = [{sizes}], dtype = {dtype}}}\n")
        yield "".join(lines[:i] + made + lines[i + 1 :])


def without_outputs(text: str) -> Iterator[str]:
    """Without one output of a graph."""
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        found = _OUTPUTS.match(line)
        if found is None:
            continue
        outputs = found[2].split(", ")
        for k in range(len(outputs)):
            left = outputs[:k] + outputs[k + 1 :]
            arrow = f" -> ({', '.join(left)})" if left else ""
            yield "".join(lines[:i] + [f"{found[1]}{arrow} {found[3]}\n"] + lines[i + 1 :])


if __name__ == "__main__":
    sys.exit(main())
