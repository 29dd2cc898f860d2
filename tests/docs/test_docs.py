"""The pages: the tour is up to date, programs on pages run, links lead somewhere."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "build" for part in page.relative_to(ROOT).parts)
)
TOUR = ROOT / "docs" / "tour.md"  # run by the program that writes it


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Line and text of each fenced block of a language."""
    found = []
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        found.append((text[: match.start(1)].count("\n"), match[1]))
    return found


def runnable(page: pathlib.Path) -> list[tuple[int, str]]:
    """Blocks that begin at the margin; indented ones are pieces of a file."""
    return [(line, code) for line, code in blocks(page.read_text(), "python") if not code.startswith(" ")]


def anchors(page: pathlib.Path) -> set[str]:
    """What `page.md#...` may name: headings in lower case without punctuation, with hyphens."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    names = set()
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        names.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return names


def test_tour_is_up_to_date():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, str(ROOT / "tools" / "make_tour.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_are_found():
    assert ROOT / "README.md" in PAGES and TOUR in PAGES


def test_programs_run(tmp_path, monkeypatch):
    """The blocks of a page, one after another, as one program. The one of README.md has a test of its own."""
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        if page in (TOUR, ROOT / "README.md"):
            continue
        names = {"__name__": "page"}
        for line, code in runnable(page):
            # Empty lines in front: errors name the line of the page.
            exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"
