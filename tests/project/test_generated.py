"""The committed reference page of the ops is the one that the op table gives now."""


def test_reference_page_is_up_to_date(root, build):
    fresh = (build / "generated" / "docs" / "ops.md").read_text()
    assert (root / "docs" / "ops.md").read_text() == fresh, "docs/ops.md is out of date: run `make build`"
