"""The worked example of docs/add-a-pass.md is the code that its test compiles and runs."""

import re


def test_pass_of_the_example_is_compiled(root):
    text = (root / "docs" / "add-a-pass.md").read_text()
    header, source, line = re.findall(r"```cpp\n(.*?)```", text, re.S)
    assert "bool squareSum(ir::Ir& ir);" in header
    body = source.split('#include "passes/square_sum.h"\n\n')[1]
    assert body in (root / "tests" / "unit" / "add_a_pass_test.cpp").read_text()
    known = (root / "src" / "passes" / "passes.def").read_text()
    assert re.fullmatch(r'POPXL_PASS\(\w+, "\w+", ".*"\)\n', line) and "POPXL_PASS(" in known
