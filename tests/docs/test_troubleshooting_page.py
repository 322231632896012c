"""Every error that users can meet has a row on the page about troubleshooting."""

import inspect
import re
from pathlib import Path

from ducklake_core import errors

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
KINDS = {errors.DuckLakeError, errors.TransientError, errors.TerminalError}  # explained before the tables


def test_every_error_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\| error \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    named = re.findall(r"^\| `(\w+)` \|", "".join(rows), re.MULTILINE)

    known = {e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, errors.DuckLakeError)}
    assert sorted(named) == sorted(error.__name__ for error in known - KINDS)


def test_the_kinds_of_errors_are_explained() -> None:
    assert [kind.__name__ for kind in KINDS if f"`{kind.__name__}`" not in PAGE] == []
