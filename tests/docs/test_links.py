"""Links between pages lead somewhere, every page is in the index, and prose fits an editor's window."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"])
USER_PAGES = sorted(ROOT.glob("docs/*.md"))
LONGEST_LINE = 120
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in LINK.findall(CODE.sub("", page.read_text())):
        file = (page.parent / target) if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in set(_anchors(file)), f"{page.name} links to {target}#{anchor}"


def test_every_user_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {target for target, _ in LINK.findall(index.read_text())}

    assert {page.name for page in USER_PAGES} - {index.name} <= linked


@pytest.mark.parametrize("page", [ROOT / "README.md", *USER_PAGES], ids=lambda page: page.name)
def test_prose_is_not_wider_than_a_window(page: Path) -> None:
    prose = CODE.sub("", page.read_text()).splitlines()

    assert [line for line in prose if len(line) > LONGEST_LINE and not line.startswith("|")] == []


def _anchors(page: Path) -> Iterator[str]:
    """Yield the anchors that GitHub gives to headings."""
    for heading in re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
