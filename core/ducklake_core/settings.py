"""Settings that people give: each is declared once, with its default and meaning; all mistakes are told at once.

Runs wherever settings are taken: those of the sink, of the source and of a flush policy. pydantic finds the mistakes;
how they are told is ours. No message shows a value that may hold a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import DuckLakeError, InvalidInput
from ducklake_core.spec.names import nearest_name, split_table_name
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.quantities import parse_duration, parse_size

_REFUSED = "refused"  # the kind of a mistake whose error says all, and of which the value is not shown


class Problem(ValueError):
    """What is wrong with a value, as it is told after the setting's name. A plain ValueError says what it must be."""


class Settings(BaseModel):
    """Frozen values that were checked. A subclass declares each by a type of this module, and `setting`."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    purpose: ClassVar[str]  # what cannot be done with mistakes, as in "a sink cannot be made"
    noun: ClassVar[str] = "setting"  # what users call one of them

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Return the settings; raise InvalidInput that lists everything that is wrong with them."""
        right: dict[type, dict[str, Any]] = {}  # Any: each setting is of its own type
        problems: list[str] = []
        found: Self | None = None
        try:
            found = cls.model_validate(given, context=right)
        except ValidationError as error:
            problems = cls._problems(error)
        problems += cls.contradictions(right.get(cls, {}))
        if found is None or problems:
            raise cls._refusal(problems)
        return found

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see parse
        """Yield what is wrong only together, of the values that were given and are right alone."""
        del right
        yield from ()

    @classmethod
    def unknown(cls, name: str) -> str:
        """Return what to say of a setting that there is not."""
        known = cls.names()
        near = nearest_name(name, known)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(sorted(known))}"
        return f"there is no {cls.noun} '{name}': {hint}"

    @classmethod
    def missing(cls, name: str) -> str:
        return f"{name} is missing"

    @classmethod
    def names(cls) -> dict[str, str]:
        """Return the name that users give for each field."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    @field_validator("*", mode="after")
    @classmethod
    def _note(cls, value: Any, info: ValidationInfo) -> Any:  # Any: see parse
        if info.context is not None and info.field_name is not None:
            info.context.setdefault(cls, {})[info.field_name] = value
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _name_mistakes(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Raise our own error where a subclass is called. `parse` does so itself, also for settings within settings."""
        try:
            return handler(given)
        except ValidationError as error:
            if info.context is not None:
                raise
            raise cls._refusal(cls._problems(error)) from None

    @classmethod
    def _refusal(cls, problems: list[str]) -> InvalidInput:
        return InvalidInput(f"{cls.purpose}: " + "; ".join(problems), problems=problems)

    @classmethod
    def _problems(cls, error: ValidationError) -> list[str]:
        return [cls._problem(details) for details in error.errors(include_url=False)]

    @classmethod
    def _problem(cls, details: ErrorDetails) -> str:
        *outer, last = map(str, details["loc"])
        name = ".".join([*outer, last])
        match details["type"]:
            case "extra_forbidden" if outer:
                return f"{'.'.join(outer)}: {cls._within(outer).unknown(last)}"
            case "extra_forbidden":
                return cls.unknown(last)
            case "missing":
                return cls._within(outer).missing(name)
            case "value_error":
                reason = details["ctx"]["error"]
                told = reason if isinstance(reason, Problem) else f"is {details['input']!r}, but must be {reason}"
                return f"{name} {told}"
            case _:
                return f"{name} is wrong: {details['msg']}"

    @classmethod
    def _within(cls, names: Sequence[str]) -> type[Settings]:
        """Return the settings that are the value of a setting of ours, of theirs, and so on."""
        found: type[Settings] = cls
        for name in names:
            kinds = [found.model_fields[found.names()[name]].annotation]
            kinds += get_args(kinds[0])
            found = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings))
        return found

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield what was given, without passwords: for everything that shows a model, such as rich."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default:
                continue
            if name == "catalog":
                value = shown_catalog(value)
            elif name == "data_path":
                value = hide_password(value)
            yield name, value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__repr_args__())})"

    __str__ = __repr__


def setting(meaning: str, *, default: Any = ..., shown: str | None = None) -> Any:  # Any: it stands for any field
    """Declare a setting; without a default it must be given. `shown`: how docs show the default, else by its repr."""
    return Field(default, description=meaning, json_schema_extra=None if shown is None else {"shown": shown})


def checked(parse: Callable[[Any], object], schema: dict[str, Any]) -> tuple[PlainValidator, WithJsonSchema]:
    """Return what makes a type of settings: `parse` raises ValueError that says what a value must be."""

    def validate(value: Any) -> object:  # Any: whatever a user may get wrong
        try:
            return parse(value)
        except DuckLakeError as error:
            raise PydanticCustomError(_REFUSED, "{reason}", {"reason": str(error)}) from None

    return PlainValidator(validate), WithJsonSchema(schema)


def shown_catalog(address: str) -> str:
    """Return a catalog's address without its password."""
    return CatalogUrl.parse(address).shown


def check_catalog(address: str, metadata_schema: str | None) -> None:
    """Raise InvalidInput where a catalog cannot have its tables in such a schema."""
    CatalogUrl.parse(address, metadata_schema)


def optional(parse: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value is None else parse(value)


# ------------------------------------------------------------------------------- what a value may be


def text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def catalog(value: object) -> str:
    CatalogUrl.parse(_address(value))
    return str(value)


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"a catalog's address is a text, not {type(value).__name__}")
    return value


def table(value: object) -> str:
    name = text(value)
    split_table_name(name)
    return name


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False")  # noqa: TRY004 # what pydantic collects
    return value


def count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a number of at least 1, or None")
    return value


def row_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a number of rows, 0 or more")
    return value


_TEXT = {"type": "string", "minLength": 1}
_SIZE = {"type": ["integer", "string"], "examples": ["64MB"]}
_TIME = {"type": ["number", "string"], "examples": ["5m"]}
_COUNT = {"type": "integer", "minimum": 1}

Text: TypeAlias = Annotated[str, *checked(text, _TEXT)]
OptionalText: TypeAlias = Annotated[str | None, *checked(optional(text), _TEXT)]
Catalog: TypeAlias = Annotated[str, *checked(catalog, _TEXT)]
TableName: TypeAlias = Annotated[str, *checked(table, _TEXT)]
OptionalTableName: TypeAlias = Annotated[str | None, *checked(optional(table), _TEXT)]
Flag: TypeAlias = Annotated[bool, *checked(flag, {"type": "boolean"})]
RowCount: TypeAlias = Annotated[int, *checked(row_count, {"type": "integer", "minimum": 0})]
OptionalCount: TypeAlias = Annotated[int | None, *checked(optional(count), _COUNT)]
Size: TypeAlias = Annotated[int, *checked(parse_size, _SIZE)]
OptionalSize: TypeAlias = Annotated[int | None, *checked(optional(parse_size), _SIZE)]
Duration: TypeAlias = Annotated[timedelta, *checked(parse_duration, _TIME)]
OptionalDuration: TypeAlias = Annotated[timedelta | None, *checked(optional(parse_duration), _TIME)]
