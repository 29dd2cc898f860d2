"""What `import popxl` loads."""

import subprocess
import sys

PROGRAM = """
import sys
import popxl
print(sorted({"popxl.checkpoint", "popxl.feed", "popdist"} & set(sys.modules)))
print("checkpoint" in dir(popxl), popxl.checkpoint.load.__name__)
try:
    popxl.nothing
except AttributeError as error:
    print(error)
"""


def test_modules_that_few_programs_need_come_when_they_are_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True load", "module 'popxl' has no attribute 'nothing'"]
