"""The exception tree in the docstring of `errors.py` is the tree of the code."""

import inspect
import re

from ducklake_core import errors
from ducklake_core.errors import DuckLakeError


def test_the_drawn_tree_has_every_error_below_its_base() -> None:
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for match in re.finditer(r"^([ │├└─]*)(\w+)(?:  .*)?$", inspect.getdoc(errors) or "", re.MULTILINE):
        depth = len(match[1])
        if depth or match[2] == "DuckLakeError":
            above[depth] = match[2]
            drawn[match[2]] = above[max((d for d in above if d < depth), default=depth)]

    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DuckLakeError)]

    bases = {kind.__name__: kind.__mro__[1].__name__ for kind in kinds if kind is not DuckLakeError}
    assert bases == {name: base for name, base in drawn.items() if name != "DuckLakeError"}
