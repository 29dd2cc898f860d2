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
RUNNABLE = [page for page in PAGES if page not in (TOUR, ROOT / "README.md")]  # README.md has a test of its own
BUILD = pathlib.Path(os.environ.get("POPXL_BUILD", ROOT / "build" / "release"))


def name_of(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


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


def run_pages(*arguments: object, cwd: pathlib.Path = ROOT) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tools" / "run_pages.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_program_of_page_runs_and_prints_what_is_shown(page):
    done = run_pages(page)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_output_on_a_page_is_found_and_mended(tmp_path):
    page = tmp_path / "page.md"
    right = "```python\nprint(6 * 7)\n```\n\n```text\n42\n```\n\n```python\n1 / 0\n```\n\n```text\nZeroDivisionError: ...\n```\n"
    page.write_text(right.replace("42", "43"))
    assert "prints\n42" in run_pages(page).stderr
    assert run_pages("--write", page).returncode == 0 and page.read_text() == right
    assert run_pages(page).returncode == 0
    page.write_text("text\n\n```python\nx = 1\n1 / 0\n```\n")
    assert f"{page}:4: ZeroDivisionError" in run_pages(page).stderr


def test_guide_lists_its_chapters():
    folder = ROOT / "docs" / "guide"
    listed = re.findall(r"^\| \[[^]]*\]\(([^)]*)\)", (folder / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")


def test_cpp_chapter_is_the_example():
    chapter = (ROOT / "docs" / "guide" / "cpp.md").read_text()
    pieces = re.findall(r"^```cpp\n(.*?)^```$", chapter, re.M | re.S)
    source = (ROOT / "examples" / "cpp" / "guide.cpp").read_text()
    assert "".join("".join(pieces).split()) == "".join(source.split())
    program = BUILD / "tests" / "example_guide"
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    (shown,) = re.findall(r"^```text\n(.*?)^```$", chapter, re.M | re.S)
    assert printed == shown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
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
