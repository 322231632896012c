"""Every `format §…` that a comment cites is a heading of docs/internals/format.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITATION = re.compile(r"format (§[\d.]*\d(?:[,–] ?§[\d.]*\d)*)")


def test_cited_sections_exist() -> None:
    headings = set(re.findall(r"^## ([\d.]+) ", (ROOT / "docs/internals/format.md").read_text(), re.MULTILINE))
    sources = [
        path for folder in ("core", "sinks", "sources", "streaming", "tests") for path in ROOT.glob(f"{folder}/**/*.py")
    ]

    cited = {
        (path.name, number)
        for path in sources
        for citation in CITATION.findall(path.read_text())
        for number in re.findall(r"[\d.]*\d", citation)
    }

    assert cited
    assert sorted(where for where in cited if where[1] not in headings) == []
