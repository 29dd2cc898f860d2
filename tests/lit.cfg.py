"""lit: every tests/**/*.ir file names in its RUN lines the tools that read it and what they must print."""

import os
import pathlib
import sys

import lit.formats

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(lit_config.params.get("build", root / "build" / "release")).resolve()

config.name = "openpopxl"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir"]
config.excludes = ["install", "unit"]
config.test_source_root = str(root / "tests")
config.test_exec_root = str(build / "lit")
config.environment["PATH"] = os.pathsep.join(
    [str(build / "bin"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
)
config.environment["PYTHONPATH"] = str(root / "python")
config.substitutions.append((r"\bFileCheck\b", "filecheck"))
config.substitutions.append((r"%{ops}", str(build / "lib" / "libpopxl_test_ops.so")))
