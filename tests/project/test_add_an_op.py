"""The worked example of docs/add-an-op.md is the code that its test compiles and runs."""
import re


def test_entry_of_the_example_is_compiled(root):
    text = (root / "docs" / "add-an-op.md").read_text()
    blocks = re.findall(r"```cpp\n(.*?)```", text, re.S)
    entry, row = blocks
    assert entry in (root / "tests" / "unit" / "add_an_op_test.cpp").read_text()
    shape_of_a_row = re.compile(r'cases\.push_back\(\{"?\w+"?, \{in\(')
    assert shape_of_a_row.search(row)
    assert shape_of_a_row.search((root / "tests" / "unit" / "op_gradient_test.cpp").read_text())


def test_names_that_the_page_mentions_exist(root):
    text = (root / "docs" / "add-an-op.md").read_text()
    schema = (root / "src" / "ir" / "op_def.h").read_text()
    sources = "".join(p.read_text() for p in (root / "src" / "ops").iterdir())
    for row in re.findall(r"^\| .*? \| (.*?) \|", text, re.M):
        for name in re.findall(r"`(\w+)`", row):
            assert name in schema or name in sources, name
