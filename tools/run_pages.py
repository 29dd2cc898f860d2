"""Runs the programs on pages of docs and compares what they print with what the pages show.

The `python` blocks of a page are one program, named after the page: guide/order.md is order.py, and its lines are
counted over the blocks. The `sh` blocks are commands, run between them in the same folder. A `text` block that follows
directly is what the block above prints, an exception's last line included; "..." in it stands for anything. Indented
blocks are pieces of files and are not run.
"""

import argparse
import contextlib
import doctest
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(?! )(.*?)^```\n(\n?```text\n(.*?)^```\n)?", re.M | re.S)


@dataclass
class Block:
    """Code on a page, what the page says that it prints, and where in the page both stand."""

    language: str
    code: str
    shown: str | None
    line: int
    span: tuple[int, int]

    def with_output(self, printed: str) -> str:
        output = f"\n```text\n{printed}```\n" if printed else ""
        return f"```{self.language}\n{self.code}```\n{output}"


def blocks(text: str) -> list[Block]:
    return [
        Block(match[1], match[2], match[4], text[: match.start(2)].count("\n") + 1, match.span())
        for match in BLOCK.finditer(text)
    ]


@contextlib.contextmanager
def output_to(path: pathlib.Path) -> Iterator[None]:
    """Sends what Python and the library print, to both streams, to a file."""
    kept = os.dup(1), os.dup(2)
    with open(path, "w", encoding="utf-8", buffering=1) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            for fd, copy in zip((1, 2), kept):
                os.dup2(copy, fd)
                os.close(copy)


class Program:
    """The program of a page."""

    def __init__(self, page: pathlib.Path) -> None:
        self.name = f"{page.stem}.py"
        self.names: dict = {"__name__": "__main__"}
        self.lines = 0

    def run(self, block: Block) -> str:
        """What a block prints; an error that the page does not show is raised."""
        path = pathlib.Path(tempfile.gettempdir()) / f"run_pages.{os.getpid()}"
        with output_to(path):
            if block.language == "python":
                self._run_python(block)
            else:
                subprocess.run(["bash", "-e", "-c", block.code], check=block.shown is None)
        text = path.read_text()
        path.unlink()
        return re.sub(r"[ \t]+$", "", text, flags=re.M)

    def _run_python(self, block: Block) -> None:
        code = compile("\n" * self.lines + block.code, self.name, "exec")
        self.lines += block.code.count("\n")
        try:
            exec(code, self.names)
        except Exception as error:
            if block.shown is None:
                raise
            print(f"{type(error).__name__}: {error}")


def run_page(page: pathlib.Path, write: bool) -> list[str]:
    """Runs a page in the current folder, and returns what is wrong with it."""
    text = page.read_text()
    program = Program(page)
    problems = []
    pieces, end = [], 0
    checker = doctest.OutputChecker()
    for block in blocks(text):
        try:
            printed = program.run(block)
        except Exception as error:
            raise RuntimeError(f"{page}:{block.line}: {type(error).__name__}: {error}") from error
        pieces += [text[end : block.span[0]], text[slice(*block.span)]]
        end = block.span[1]
        if not checker.check_output(block.shown or "", printed, doctest.ELLIPSIS):
            problems.append(f"{page}:{block.line}: prints\n{printed}the page shows\n{block.shown or ''}")
            pieces[-1] = block.with_output(printed)
    if write and problems:
        page.write_text("".join(pieces) + text[end:])
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put what the programs print in the pages")
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    build = pathlib.Path(os.environ.get("POPXL_BUILD", ROOT / "build" / "release"))
    folders = [build / "bin", pathlib.Path(sys.executable).parent]  # `python` is this one
    os.environ["PATH"] = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    problems = []
    for page in [page.resolve() for page in arguments.pages]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            problems += run_page(page, arguments.write)
    if problems and not arguments.write:
        sys.exit("\n".join([*problems, "`tools/run_pages.py --write PAGE` puts what is printed in the page."]))


if __name__ == "__main__":
    main()
