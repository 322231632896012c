"""The table of findings on the page about the doctor is that of the code: `make docs` writes it."""

from tests.docs.option_tables import DOCS, with_findings


def test_the_page_has_every_finding() -> None:
    page = (DOCS / "check-a-lake.md").read_text()
    assert page == with_findings(page)
