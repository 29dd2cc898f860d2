"""Programs in the Graphviz format, and as notebooks show them."""

import html
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, List, Optional

if TYPE_CHECKING:
    from popxl import _core
    from popxl.ir import Ir


def is_active(ir: "Ir", check: str) -> bool:
    """Whether a checkpoint is switched on, by the environment or by the options of the Ir."""
    active = set(ir._pb_ir.getSessionOptions().dotChecks)
    active.update(os.environ.get("POPART_DOT_CHECKS", "").split(":"))
    names = {name.strip().upper() for name in active if name.strip()}
    return bool(names & {"ALL", check.upper()})


def write_checkpoint(ir: "Ir", check: str) -> None:
    """Writes `<check>.dot` to the Ir's folder for such files, if the checkpoint is switched on."""
    if not is_active(ir, check):
        return
    folder = Path(ir._pb_ir.getSessionOptions().logDir or ".")
    (folder / f"{check.lower()}.dot").write_text(to_dot(ir), encoding="utf-8")


def to_dot(ir: "Ir") -> str:
    """The program as a directed graph: a cluster for each graph, a node for each op and each tensor without
    one."""
    return _dot_of(ir._pb_ir.getAllGraphs())


def to_svg(graphs: Iterable["_core.Graph"]) -> Optional[str]:
    """A picture of graphs; None where Graphviz is not installed or can't draw them."""
    if shutil.which("dot") is None:
        return None
    dot = _dot_of(graphs)
    drawn = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=False)
    at = drawn.stdout.find("<svg")
    return drawn.stdout[at:] if drawn.returncode == 0 and at >= 0 else None


def to_html(text: str, graphs: Iterable["_core.Graph"]) -> str:
    """What a notebook shows of graphs: their text, and a picture where there can be one."""
    picture = to_svg(graphs)
    shown = f'<pre style="line-height: 1.3">{html.escape(text)}</pre>'
    return shown if picture is None else f"{shown}<details><summary>Picture</summary>{picture}</details>"


def _dot_of(graphs: Iterable["_core.Graph"]) -> str:
    lines = ["digraph program {", "  rankdir=TB;", "  node [shape=box];"]
    for number, graph in enumerate(graphs):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quote(graph.id or 'main')};")
        lines.extend("    " + line for line in _graph_lines(number, graph))
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _graph_lines(number: int, graph: "_core.Graph") -> List[str]:
    lines = []
    made = set()
    for op in graph.getOps():
        node = f"op{op.id}"
        lines.append(f"{node} [label={_quote(f'{op.opType()} {op.id}')}];")
        for tensor in op.inputs:
            if tensor is None:
                continue
            producer = tensor.producer
            source = f"op{producer.id}" if producer is not None else _quote(f"{number}/{tensor.id}")
            if producer is None and tensor.id not in made:
                made.add(tensor.id)
                lines.append(f"{source} [shape=ellipse label={_quote(f'{tensor.id} {tensor.info}')}];")
            lines.append(f"{source} -> {node} [label={_quote(tensor.name)}];")
    return lines


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
