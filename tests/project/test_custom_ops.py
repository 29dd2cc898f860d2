"""The library of docs/custom-ops.md, built as the page says against the installed package, loaded and run."""

import pathlib
import re
import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import sys

    import numpy as np
    import popxl
    from popxl import ops, transforms

    leaky = popxl.load_ops(sys.argv[1])
    assert popxl.load_ops(sys.argv[1]).__dict__.keys() == leaky.__dict__.keys()
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.array([-2.0, 3.0], np.float32), name="x")
        graph = ir.create_graph(lambda t: leaky.fast_leaky_relu(t, alpha=0.5), x.spec)
        site = ops.call_with_info(graph, x)
        info = transforms.autodiff(graph)
        one = popxl.constant(np.ones(2, np.float32))
        (dx,) = ops.call(info.graph, one, inputs_dict=info.inputs_dict(site))
        streams = [popxl.d2h_stream((2,), popxl.float32, name=name) for name in ("y", "dx")]
        for stream, t in zip(streams, (site.outputs[0], dx)):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    assert [results[s].tolist() for s in streams] == [[-1.0, 3.0], [0.5, 1.0]]
    print(ir.to_text())
    """
)


def run(*command: object, cwd: pathlib.Path, fails: bool = False) -> str:
    """Returns what the command prints; a failure that is not expected shows both streams."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert (result.returncode != 0) == fails, result.stdout + result.stderr
    return result.stderr if fails else result.stdout


def build_library(prefix: pathlib.Path, folder: pathlib.Path, source: str, cmake: str) -> pathlib.Path:
    folder.mkdir()
    (folder / "leaky.cpp").write_text(source)
    (folder / "CMakeLists.txt").write_text(cmake)
    run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
    run("cmake", "--build", folder / "build", cwd=folder)
    return folder / "build" / "libleaky.so"


def test_library_of_the_page(root, build, tmp_path):
    page = (root / "docs" / "custom-ops.md").read_text()
    (source,) = re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S)
    (cmake,) = re.findall(r"^```cmake\n(.*?)^```$", page, re.M | re.S)
    prefix = tmp_path / "prefix"
    run("cmake", "--install", build, "--prefix", prefix, "--component", "cpp", cwd=tmp_path)
    library = build_library(prefix, tmp_path / "leaky", source, cmake)

    text = run(sys.executable, "-c", PROGRAM, library, cwd=tmp_path)
    program = tmp_path / "program.ir"
    program.write_text(text)
    for tool in ("popxl-opt", "popxl-run"):
        assert "there is no op named `fast_leaky_relu`" in run(prefix / "bin" / tool, program, cwd=tmp_path, fails=True)
    assert run(prefix / "bin" / "popxl-opt", f"--load={library}", program, cwd=tmp_path).strip() == text.strip()
    for engine in ([], ["--reference"]):
        printed = run(prefix / "bin" / "popxl-run", f"--load={library}", *engine, program, cwd=tmp_path)
        assert printed.splitlines() == ["y float32 (2,): [-1, 3]", "dx float32 (2,): [0.5, 1]"]

    # Another version of the interface.
    old = "namespace { constexpr int kOld = popxl::kOpsAbi + 1; }\n#define kOpsAbi kOld\nnamespace popxl { using ::kOld; }\n"
    changed = source.replace("#include <popxl/custom_op.h>\n", "#include <popxl/custom_op.h>\n" + old)
    other = build_library(prefix, tmp_path / "other", changed, cmake)
    message = run(prefix / "bin" / "popxl-opt", f"--load={other}", program, cwd=tmp_path, fails=True)
    assert "was built against version 2 of the interface of ops, this is version 1" in message
