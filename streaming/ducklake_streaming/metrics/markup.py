"""A tiny builder of HTML that escapes whatever is not markup of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """HTML that was built here; every other string is a text, and is escaped."""

    __slots__ = ()


_VOID = frozenset({"circle", "line", "link", "meta", "path", "polygon", "polyline"})


def tag(name: str, /, *children: str | None, **attributes: object) -> Markup:
    """Return an element. Texts are escaped; a child that is None is left out, as is an attribute.

    An attribute loses a `_` at its end and has `-` for others: `class_`, `aria_label`.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}/>")
    return Markup(f"<{name}{shown}>{joined(children)}</{name}>")


def joined(parts: Iterable[str | None]) -> Markup:
    """Return parts behind each other, texts escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts if part is not None))
