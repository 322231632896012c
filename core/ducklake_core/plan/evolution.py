"""Which changes make a table hold data of another schema without loss: columns to add, types to promote. Pure.

What cannot be had by these is left alone: whether the data then fits is for `conform` to say, by column and type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ducklake_core.model import Column
from ducklake_core.spec.names import fold, quoted
from ducklake_core.spec.promotions import is_promotion
from ducklake_core.spec.types import type_text


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column or struct field that the data has and the table has not; `path` is quoted where it must be."""

    path: str
    type: str


@dataclass(frozen=True, slots=True)
class PromoteColumn:
    """A column or field whose type becomes that of the data, which holds all its values."""

    path: str
    type: str


EvolutionStep = AddColumn | PromoteColumn


def plan_evolution(columns: Sequence[Column], incoming: Sequence[Column]) -> tuple[EvolutionStep, ...]:
    """Return the steps from a table's columns to ones that also hold `incoming`, matched by name regardless of case.

    Columns that the data lacks stay, and so does a type that holds the incoming one already.
    """
    return tuple(_steps(columns, incoming, ()))


def _steps(columns: Sequence[Column], incoming: Sequence[Column], parents: tuple[str, ...]) -> Iterator[EvolutionStep]:
    known = {fold(c.name): c for c in columns}
    for new in incoming:
        old = known.get(fold(new.name))
        if old is None:
            yield AddColumn(quoted(*parents, new.name), type_text(new))
        elif old.is_nested and old.type == new.type:
            yield from _steps(old.children, new.children, (*parents, old.name))
        elif old.type != new.type and not new.is_nested and not old.is_nested and is_promotion(old.type, new.type):
            yield PromoteColumn(quoted(*parents, old.name), type_text(new))
