"""The site's navigation, from the tables of the pages, and its pages on the Python API; used by mkdocs.yml."""

import pathlib
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"

# Pages on the API: their title, and what each describes.
API = {
    "Programs": ["popxl.Ir", "popxl.Graph", "popxl.Module", "popxl.context"],
    "Tensors": ["popxl.tensor", "popxl.dtypes", "popxl.utils", "popxl.fp8_utils", "popxl.random_seed"],
    "Ops": ["popxl.ops"],
    "Variable updates": ["popxl.ops.var_updates"],
    "Transforms": ["popxl.transforms"],
    "Sessions": ["popxl.session", "popxl.streams", "popxl.profile"],
    "Replicas and remote buffers": ["popxl.replica_grouping", "popxl.remote_buffer", "popxl.tensorlocation"],
}


PREAMBLE = (
    "The examples stand in the main graph of a program: `ir = popxl.Ir()`, `with ir.main_graph:`. `run(t)` gives the "
    "value of a tensor when that program runs."
)


def path_of(title: str) -> str:
    return f"api/{title.lower().replace(' ', '-')}.md"


def linked(page: str) -> list[str]:
    """The pages that the tables of a page link to, in order, as paths in docs/."""
    folder = pathlib.PurePosixPath(page).parent
    return [str(folder / target) for target in re.findall(r"^\| \[[^]]*\]\(([^)#]+)\)", (DOCS / page).read_text(), re.M)]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Makes the navigation; pages that no table links to come last."""
    guide = linked("guide/README.md")
    others = linked("README.md")
    listed = {"README.md", "guide/README.md", *guide, *others}
    found = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    design = [page for page in others if page.startswith("design/")]
    config.nav = [
        {"Start": "README.md"},
        {"User guide": ["guide/README.md", *guide]},
        {"Internals": [page for page in others if page not in design and page != "guide/README.md"]},
        {"Design": [*design, *(page for page in found if page not in listed)]},
        {"Python API": [{title: path_of(title)} for title in API]},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages on the API."""
    for title, names in API.items():
        text = f"# {title}\n\n{PREAMBLE}\n\n" + "".join(f"::: {name}\n\n" for name in names)
        files.append(File.generated(config, path_of(title), content=text))
    return files
