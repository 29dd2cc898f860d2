"""Checks who includes whom.

A folder of src/ includes only itself and those above it, a public header only public ones.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Also the order of the folders in the top CMakeLists.txt.
LAYERS = ["base", "algo", "dist", "kernels", "ir", "ops", "analysis", "passes", "compile", "exec", "api", "bindings"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"(([a-z_]+)/[^"]+)"', re.MULTILINE)


def violations() -> list[str]:
    """Returns one line per include that points the wrong way."""
    found = []
    for path in sorted([*ROOT.glob("src/*/**/*.h"), *ROOT.glob("src/*/**/*.cpp")]):
        layer = path.relative_to(ROOT / "src").parts[0]
        if layer not in LAYERS:
            found.append(f"{path.relative_to(ROOT)}: src/{layer} is not one of the layers")
            continue
        for header, folder in INCLUDE.findall(path.read_text()):
            below = folder in LAYERS and LAYERS.index(folder) > LAYERS.index(layer)
            # The op functions are generated from the op table, so nothing below the API may need them.
            generated = header == "popxl/ops.h" and LAYERS.index(layer) < LAYERS.index("api")
            if below or generated:
                found.append(f"{path.relative_to(ROOT)}: {layer} may not include {header}")
    for path in sorted(ROOT.glob("include/popxl/**/*.h")):
        for header, folder in INCLUDE.findall(path.read_text()):
            if folder != "popxl":
                found.append(f"{path.relative_to(ROOT)}: a public header may not include {header}")
    return found


if __name__ == "__main__":
    lines = violations()
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
