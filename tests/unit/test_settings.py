"""Settings: declared once, all mistakes told at once, no password shown."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import Catalog, Flag, Problem, Settings, Size, checked, optional, setting


def _even(value: int) -> int:
    if value % 2:
        raise Problem("is odd")
    return value


def _soon(value: str) -> str:
    if value != "soon":
        raise ValueError("'soon'")
    return value


class Inner(Settings):
    """Settings within others."""

    purpose: ClassVar[str] = "no inner"

    wait: Annotated[str, *checked(_soon, {"type": "string"})] = setting("how long", default="soon")


class Outer(Settings):
    """Settings of a test."""

    purpose: ClassVar[str] = "no outer"
    noun: ClassVar[str] = "option"

    catalog: Catalog = setting("where")
    size: Size = setting("how large", default=1)
    quick: Flag = setting("whether", default=False)
    even: Annotated[int | None, *checked(optional(_even), {"type": "integer"})] = setting("which", default=None)
    inner: Inner = setting("more", default=Inner())

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:
        if right.get("quick") and right.get("size", 0) > 100:
            yield "what is large is not quick"


LAKE = {"catalog": "sqlite:///x.sqlite"}


def test_values_are_parsed_and_defaults_stay() -> None:
    found = Outer.parse({**LAKE, "size": "1kB", "inner": {"wait": "soon"}})

    assert (found.size, found.quick, found.inner) == (1000, False, Inner())


def test_every_mistake_is_told_at_once_and_so_is_what_contradicts() -> None:
    with pytest.raises(InvalidInput) as caught:
        Outer.parse({"size": "1kB", "quick": True, "even": 3, "inner": {"wait": "never", "x": 1}, "quikc": True})

    assert caught.value.problems == [
        "catalog is missing",
        "even is odd",
        "inner.wait is 'never', but must be 'soon'",
        "inner.x: there is no setting 'x': known are wait",
        "there is no option 'quikc': did you mean 'quick'?",
        "what is large is not quick",
    ]


def test_what_is_made_by_name_is_refused_by_our_own_error() -> None:
    with pytest.raises(InvalidInput, match="no inner: wait is 'never', but must be 'soon'"):
        Inner(wait="never")


def test_values_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Outer.parse(LAKE).size = 5


def test_no_password_is_shown() -> None:
    address = "postgresql://lake:hunter2@db/lake"

    found = Outer.parse({"catalog": address})
    shown = f"{found!r} {found} {list(found.__repr_args__())}"
    with pytest.raises(InvalidInput) as caught:
        Outer.parse({"catalog": address.replace("postgresql", "mysql")})

    assert "postgresql://lake:***@db/lake" in shown
    assert "hunter2" not in shown + str(caught.value)
