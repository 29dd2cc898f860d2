"""Keeps the tree readable: limits on the length of files, headers and functions, and no path of anyone's machine.

A file over 800 lines, one over 500 without a reason below, or a mention of a path outside the checkout is an error.
A header over 150 lines and a function over 60 are reported, and are errors with --strict. Only tracked files count.
"""

import argparse
import ast
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_END = 800
FILE_NEEDS_REASON = 500
HEADER_END = 150
FUNCTION_END = 60

# Why a file may be longer than 500 lines.
REASONS = {
    "tests/api/test_errors.py": "one table of what programs do wrong",
    "tests/unit/program_generator.h": "one generator: what it draws next depends on all that it has drawn",
    "tools/popxl_gen.cpp": "one table written as C++, Python and Markdown, which share how attributes are named",
    "python/popxl/session.py": "one class: the methods of Session, each with its signature and docstring",
    "python/popxl/tensor.py": "one class: the operators and methods of Tensor, each with its signature and docstring",
}

CODE = {".cpp", ".h", ".py", ".sh", ".cmake"}
GENERATED = re.compile(r"(^|/)_generated\.py$|\.pyi$|^docs/reference/")

# Written in pieces, so that this file does not mention what it forbids.
OUTSIDE = [r"/" + name + r"\b" for name in ("work/", "root/", "tmp/bash_jobs", "tmp/team", "tmp/src")]
OUTSIDE.append(re.escape(str(pathlib.Path.home())) + "/")
FORBIDDEN = re.compile(r"(?<![\w.$}/])(" + "|".join(OUTSIDE) + ")")

NOT_A_FUNCTION = re.compile(r"\s*(inline\s+|export\s+)?(namespace|class|struct|enum|union|extern)\b|.*=\s*\{$|\s*#")


def tracked_files() -> list[pathlib.Path]:
    """Returns the tracked files that exist, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()]


def cpp_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yields (first line, length) of each function body, relying on clang-format's indentation."""
    number = 0
    while number < len(lines):
        line = lines[number]
        indent = len(line) - len(line.lstrip())
        if indent <= 2 and line.rstrip().endswith("{") and not NOT_A_FUNCTION.match(line):
            closing = re.compile(" " * indent + r"\}[;)]*\s*(//.*)?$")
            end = next((i for i in range(number + 1, len(lines)) if closing.match(lines[i])), None)
            if end is not None:
                yield number + 1, end - number + 1
                number = end
        number += 1


def python_functions(source: str) -> Iterator[tuple[int, int]]:
    """Yields (first line, length without the docstring) of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node):
                length -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            yield node.lineno, length


def check_file(path: pathlib.Path, source: str) -> tuple[list[str], list[str]]:
    """Returns the errors and the reports about one tracked file."""
    errors, reports = [], []
    lines = source.splitlines()
    for number, line in enumerate(lines, 1):
        if match := FORBIDDEN.search(line):
            errors.append(f"{path}:{number}: names a path outside the checkout: {match[0]}")
    if path.suffix not in CODE or GENERATED.search(str(path)):
        return errors, reports
    if len(lines) > FILE_END:
        errors.append(f"{path}: {len(lines)} lines; {FILE_END} is the end, split it")
    elif len(lines) > FILE_NEEDS_REASON and str(path) not in REASONS:
        errors.append(f"{path}: {len(lines)} lines; above {FILE_NEEDS_REASON} needs a reason in tools/size_budget.py")
    if path.suffix == ".h" and len(lines) > HEADER_END:
        reports.append(f"{path}: header of {len(lines)} lines; aim for {HEADER_END}")
    functions = python_functions(source) if path.suffix == ".py" else cpp_functions(lines)
    for first, length in functions if path.suffix in (".py", ".cpp", ".h") else ():
        if length > FUNCTION_END:
            reports.append(f"{path}:{first}: function of {length} lines; aim for {FUNCTION_END}")
    return errors, reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true", help="what is reported is an error")
    strict = parser.parse_args().strict
    errors, reports, lengths = [], [], []
    for path in tracked_files():
        try:
            source = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or another binary file
        found, reported = check_file(path, source)
        errors += found
        reports += reported
        if path.suffix in CODE:
            lengths.append(source.count("\n"))
    errors += [f"tools/size_budget.py: a reason is given for {name}, which does not exist" for name in REASONS
               if not (ROOT / name).exists()]
    for line in reports:
        print(line)
    for line in errors:
        print(f"error: {line}")
    if lengths:
        print(f"{len(lengths)} code files, median {statistics.median(lengths):.0f} lines, longest {max(lengths)}")
    return 1 if errors or (strict and reports) else 0


if __name__ == "__main__":
    sys.exit(main())
