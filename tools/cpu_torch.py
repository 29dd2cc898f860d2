"""Makes a torch wheel that was built for CUDA importable without the CUDA packages, for measurements on the CPU.

The wheel's libraries name a dozen CUDA libraries, some 3 GB, that a CPU program never calls. This writes libraries
of these names next to them in which every function returns "no device". Usage: cpu_torch.py TORCH_LIB_FOLDER
"""

import collections
import pathlib
import re
import subprocess
import sys

CUDA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
CUDA_FUNCTION = re.compile(r"(cu|nv|nccl)[A-Za-z]")
NO_DEVICE = 100


def run(*command: str | pathlib.Path) -> str:
    """Returns what the command prints; raises when it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_symbols(folder: pathlib.Path) -> dict[str, dict[str, set[str]]]:
    """Maps each CUDA library that `folder` needs and lacks to its symbol versions and their functions."""
    needed: set[str] = set()
    undefined: set[tuple[str, str]] = set()
    library_of_version: dict[str, str] = {}
    for library in sorted(folder.glob("*.so*")):
        needed.update(re.findall(r"NEEDED\).*\[(.*)\]", run("readelf", "-dW", library)))
        current = ""
        for line in run("readelf", "-VW", library).splitlines():
            if match := re.search(r"File: (\S+)", line):
                current = match[1]
            elif match := re.search(r"Name: (\S+)\s+Flags", line):
                library_of_version[match[1]] = current
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            undefined.add((name, version.strip("@")))

    present = {path.name for path in folder.iterdir()}
    missing = sorted(name for name in needed - present if CUDA_LIBRARY.match(name))
    symbols: dict[str, dict[str, set[str]]] = {name: collections.defaultdict(set) for name in missing}
    for name, version in undefined:
        if version and library_of_version.get(version) in symbols:
            symbols[library_of_version[version]][version].add(name)
        elif not version and missing and CUDA_FUNCTION.match(name):
            symbols[missing[0]][""].add(name)
    return symbols


def write_library(path: pathlib.Path, versions: dict[str, set[str]]) -> None:
    """Builds the shared library `path` with one function per name, under the symbol versions given."""
    source = path.with_suffix(".c")
    script = path.with_suffix(".map")
    names = sorted(name for group in versions.values() for name in group)
    source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names))
    nodes = [
        f'"{version}" {{ global: {"; ".join(sorted(group))}; }};\n' for version, group in versions.items() if version
    ]
    script.write_text("".join(nodes))
    command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{path.name}"]
    run(*command, *([f"-Wl,--version-script={script}"] if nodes else []), "-o", path, source)
    source.unlink()
    script.unlink()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for name, versions in missing_symbols(folder).items():
        write_library(folder / name, versions)


if __name__ == "__main__":
    main()
