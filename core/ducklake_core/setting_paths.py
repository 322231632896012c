"""Where in settings within settings a mistake is, from where pydantic found it. Pure; runs where they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Place:
    """The names that users wrote to get there, the settings that the last is in, and which kinds it may be of."""

    names: tuple[str, ...]
    holder: type[BaseModel]
    tags: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return ".".join(self.names)


def find_place(root: type[BaseModel], location: Sequence[str | int]) -> Place:
    """Follow pydantic's location; the choice among several kinds of settings is a step there, and none for users."""
    names: list[str] = []
    holder: type[BaseModel] = root
    kinds: list[Any] = [root]  # Any: see _kinds_of_field
    for step in map(str, location):
        models = _models(kinds)
        if len(models) > 1:
            kinds = [model for model in models if step in _tags(model)]
            continue
        names += [] if step == "[key]" else [step]
        if models:
            holder, kinds = models[0], _kinds_of_field(models[0], step)
        else:
            kinds = _kinds_of_item(kinds)
    return Place(tuple(names), holder, tuple(tag for model in _models(kinds) for tag in _tags(model)))


def _models(kinds: list[Any]) -> list[type[BaseModel]]:  # Any: see _kinds_of_field
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _tags(model: type[BaseModel]) -> list[str]:
    kinds = [field.annotation for field in model.model_fields.values() if get_origin(field.annotation) is Literal]
    return [str(tag) for kind in kinds for tag in get_args(kind)]


def _kinds_of_field(model: type[BaseModel], name: str) -> list[Any]:  # Any: annotations are of any type
    found = [field for key, field in model.model_fields.items() if name in (key, field.alias)]
    return _kinds(found[0].annotation) if found else []


def _kinds_of_item(kinds: list[Any]) -> list[Any]:  # Any: see _kinds_of_field
    """Return what the values of a mapping are."""
    mappings = [get_args(kind) for kind in kinds if isinstance(get_origin(kind), type)]
    return [kind for key_and_value in mappings for kind in _kinds(key_and_value[-1])]


def _kinds(annotation: Any) -> list[Any]:  # Any: see _kinds_of_field
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [kind for one in get_args(annotation) for kind in _kinds(one)]
    return [annotation]
