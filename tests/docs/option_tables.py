"""The tables of options in the docs, made from the code: `make docs` writes them, a test compares them."""

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from ducklake_core.settings import Settings
from ducklake_sinks import FlushPolicy
from ducklake_sinks.options import SinkOptions
from ducklake_sources.options import FOR_CHANGES_ONLY, FOR_TABLES_ONLY, SourceOptions

DOCS = Path(__file__).parents[2] / "docs"
_END = "|---|---|---|\n"

# Of each page: the heading of a table's first column, whose settings it has, and which of them are left out.
TABLES: list[tuple[str, str, type[Settings], frozenset[str]]] = [
    ("write-a-stream.md", "option", SinkOptions, frozenset()),
    ("write-a-stream.md", "threshold", FlushPolicy, frozenset()),
    ("change-feed.md", "option", SourceOptions, FOR_TABLES_ONLY),
    ("read-tables.md", "option", SourceOptions, FOR_CHANGES_ONLY),
]


def with_table(page: str, heading: str, kind: type[Settings], left_out: frozenset[str]) -> str:
    """Return the page with its table as the code has it."""
    head = f"| {heading} | default | |\n{_END}"
    before, rest = page.split(head)
    after = rest[rest.index("\n\n") + 1 :]
    return before + head + "".join(_rows(kind, left_out)) + after


def _rows(kind: type[Settings], left_out: frozenset[str]) -> list[str]:
    names = {name: field for name, field in kind.names().items() if name not in left_out}
    return [
        f"| `{name}` | {_default(kind.model_fields[field])} | {kind.model_fields[field].description} |\n"
        for name, field in names.items()
    ]


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else shown_default(field) or f"`{field.default!r}`"


def shown_default(field: FieldInfo) -> str | None:
    """Return how a default is shown that is not shown by its repr."""
    shown = field.json_schema_extra.get("shown") if isinstance(field.json_schema_extra, dict) else None
    return None if shown is None else str(shown)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page and what it should be."""
    for name in dict.fromkeys(table[0] for table in TABLES):
        page = (DOCS / name).read_text()
        for _, heading, kind, left_out in (table for table in TABLES if table[0] == name):
            page = with_table(page, heading, kind, left_out)
        yield DOCS / name, page


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text)
