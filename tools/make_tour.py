"""Writes docs/tour.md: one model through every stage, with the real text of each. `--check` only compares."""

import argparse
import pathlib
import re
import sys

import numpy as np

import popxl

TARGET = pathlib.Path(__file__).resolve().parent.parent / "docs" / "tour.md"

MODEL = """\
import numpy as np
import popxl
import popxl.ops as ops
import popxl.transforms as transforms

def layer(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor):
    return ops.gelu(x @ w + b)

ir = popxl.Ir()
with ir.main_graph, popxl.in_sequence():
    x_stream = popxl.h2d_stream((4, 3), popxl.float32, "x_stream")
    x = ops.host_load(x_stream, "x")
    w = popxl.variable(np.full((3, 2), 0.5, np.float32), name="w")
    b = popxl.variable(np.zeros(2, np.float32), name="b")

    graph = ir.create_graph(layer, x, w, b)
    call = ops.call_with_info(graph, x, w, b)
"""

TRAINING = """\
with ir.main_graph, popxl.in_sequence():
    grads = transforms.autodiff(graph, grads_required=graph.inputs[1:])
    dy = popxl.constant(np.ones((4, 2), np.float32), name="dy")
    dw, db = ops.call(grads.graph, dy, inputs_dict=grads.inputs_dict(call))
    ops.scaled_add_(w, dw, b=-0.1)
    ops.scaled_add_(b, db, b=-0.1)

    y_stream = popxl.d2h_stream((4, 2), popxl.float32, "y_stream")
    ops.host_store(y_stream, call.outputs[0])
"""

RUN = """\
session = popxl.Session(ir, "cpu")
with session:
    y = session.run({x_stream: np.ones((4, 3), np.float32)})[y_stream]
new_b = session.get_tensor_data(b)
"""


class Page:
    def __init__(self) -> None:
        self.text = ""
        self.names: dict = {}
        self.lines = 0

    def say(self, text: str) -> None:
        self.text += text.strip() + "\n\n"

    def block(self, language: str, text: str) -> None:
        self.text += f"```{language}\n{text.rstrip()}\n```\n\n"

    def run(self, code: str) -> None:
        """Shows and runs code as the next lines of the file tour.py."""
        self.block("python", code)
        exec(compile("\n" * self.lines + code, "tour.py", "exec"), self.names)
        self.lines += code.count("\n")


def check_values(names: dict) -> None:
    """The numbers on the page against float64."""
    z = np.full((4, 2), 1.5)
    inner = np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)
    np.testing.assert_allclose(names["y"], 0.5 * z * (1 + np.tanh(inner)), rtol=1e-6)
    slope = 0.5 * (1 + np.tanh(inner)) + 0.5 * z * (1 - np.tanh(inner) ** 2) * np.sqrt(2 / np.pi) * (
        1 + 3 * 0.044715 * z**2
    )
    np.testing.assert_allclose(names["new_b"], -0.1 * slope.sum(axis=0), rtol=1e-5)


def make() -> str:
    page = Page()
    page.say("<!-- Written by tools/make_tour.py; a test compares. -->\n# A tour: one model through every stage")
    page.say("""
A program is built, differentiated, checked, compiled and run. Each stage has a text that you can read, and this page
shows the real ones. The model is one layer, `gelu(x @ w + b)`.

## 1. Building

Python runs once and leaves ops in graphs. `create_graph` calls `layer` with the new graph's inputs; `call_with_info`
adds one op that runs it.
""")
    page.run(MODEL)
    ir = page.names["ir"]
    page.say("""
`ir.to_text()` shows what stands there now. Every op says where in the program it was made; operands and results are
named after what the program called them, and types follow the colon. [ir.md](ir.md) has the grammar.
""")
    page.block("", ir.to_text())
    page.say("""
## 2. Differentiating

`autodiff` walks `layer` backwards and asks each op's table entry for its adjoint. What the adjoints read of the forward
graph has to come out of it, so the graph gains outputs, and so do its calls. Then the gradients are used: the two
`scaled_add_` write the variables in place. `in_sequence` says in which order reads and writes of them happen.
""")
    page.run(TRAINING)
    page.block("", ir.to_text(locations=False))
    page.say("""
The text is complete: reading it gives the same program.
""")
    page.run("same = popxl.Ir.from_text(ir.to_text())\nassert same.to_text() == ir.to_text()\n")
    page.say("""
## 3. Checking and compiling

`Session` first checks that no two ops touch the same memory in an order that nothing fixes (`src/analysis/ambiguity.cpp`).
Then `src/compile/compile.cpp` works on a copy:

1. Liveness: what no effect depends on is neither computed nor kept, through calls too.
2. Schedule: an order within the dependences that keeps few bytes alive.
3. Storage: which tensors share memory: in-place results and views, where nothing writes in between.
4. Fusion: neighbouring elementwise ops of one shape become one kernel.
5. Lowering and memory plan: kernels are made for the layouts, and every local buffer gets its place in the frame. A
   called graph is compiled once; its frame is a piece of its caller's.
""")
    page.run(RUN)
    check_values(page.names)
    session = page.names["session"]
    page.say("""
The product is a list of instructions over planned memory. `frame+64` is a place in the running graph's frame, `var` the
variables, `arg2` what the caller passed.
""")
    page.block("", session.program_text())
    memory = session.memory()
    page.say(f"""
The peak is known before anything runs: `session.memory()` says {memory.frame_bytes} bytes of frame,
{memory.variable_bytes} of variables and {memory.constant_bytes} of constants.

## 4. Running

The executor (`src/exec/executor.cpp`) walks the list; it allocates nothing. The values of this run:
""")
    page.block("", f"y[0]  = {page.names['y'][0]}\nnew b = {page.names['new_b']}")
    return re.sub(r"\n{3,}", "\n\n", page.text).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = make()
    if not options.check:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        sys.exit(f"{TARGET} is out of date: run `.venv/bin/python tools/make_tour.py`")


if __name__ == "__main__":
    main()
