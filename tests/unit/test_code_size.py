"""Code that a reader can hold: how long files and functions are, and how often every error is caught."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in ("core", "sinks", "sources", "streaming") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield each such node of the product with where it is."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kinds):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node  # type: ignore[attr-defined] # all kinds have one


def body_lines(node: ast.AST) -> int:
    """Return the lines of a function without its head and its docstring."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def is_broad(node: ast.AST) -> bool:
    assert isinstance(node, ast.ExceptHandler)
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(one is None or ast.unparse(one) in ("Exception", "BaseException") for one in caught)


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}

    assert len(FILES) > 300
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_functions_are_short() -> None:
    lengths = {place: body_lines(node) for place, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)}

    assert {place: length for place, length in lengths.items() if length > 40} == {}
    assert sorted(lengths.values())[len(lengths) * 9 // 10] <= 15


def test_few_places_catch_every_error_and_each_says_why() -> None:
    places = [place for place, node in nodes(ast.ExceptHandler) if is_broad(node)]
    lines = {place: (ROOT / place.partition(":")[0]).read_text().splitlines() for place in places}

    assert len(places) <= 16, places
    assert [place for place in places if "# " not in lines[place][int(place.partition(":")[2]) - 1]] == []


def test_tests_read_log_messages_and_not_their_formatted_text() -> None:
    """Once PySpark has logged an error of its own, pytest's handler formats every line as JSON, quotes escaped."""
    formatted = "caplog" + ".text"

    assert [str(path.relative_to(ROOT)) for path in TESTS if formatted in path.read_text()] == []
