"""What differs between catalog databases is told by their records: no other module asks which one it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = {"sqlite", "sqlite3", "postgres", "postgresql", "psycopg"}
# Where databases have names: their own folders, and what users write in addresses.
OWN = ("catalog/postgres/", "catalog/dbapi/", "catalog/urls.py")


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield each place where the code, not a text for people, has the name of a database."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield f"line {node.lineno}: {node.value!r}"


def comparisons_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            yield from names_in(node)


@pytest.mark.parametrize(
    "path", [p for p in sources("core", "sinks", "sources") if not any(own in str(p) for own in OWN)], ids=str
)
def test_module_names_no_database(path: Path) -> None:
    assert list(names_in(ast.parse(path.read_text()))) == []


def test_nobody_compares_the_name_of_a_database() -> None:
    paths = [p for p in sources("core", "sinks", "sources", "streaming") if not any(own in str(p) for own in OWN)]

    assert {path.name: found for path in paths if (found := list(comparisons_in(ast.parse(path.read_text()))))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "name == 'sqlite'",
        "x = {'postgresql': 1}",
        "match n:\n  case 'sqlite': pass",
        "n in ('sqlite',)",
    ],
)
def test_look_finds_what_it_looks_for(code: str) -> None:
    assert len(list(names_in(ast.parse(code)))) == 1
