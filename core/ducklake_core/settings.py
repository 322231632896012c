"""Settings that people give: each is declared once, with its default and meaning; all mistakes are told at once.

Runs wherever settings are taken: those of the sink, of the source and of a flush policy. pydantic finds the mistakes;
how they are told is ours. No message shows a value that may hold a password.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails

from ducklake_core.catalog.urls import CatalogUrl, address_in
from ducklake_core.errors import DuckLakeError, InvalidInput
from ducklake_core.references import ReferencedText, as_written
from ducklake_core.setting_mistakes import Problem as Problem  # noqa: PLC0414 # declared there, used with the types here
from ducklake_core.setting_mistakes import contradiction, found_again, joined, refusal, tell
from ducklake_core.setting_paths import find_place
from ducklake_core.spec.names import nearest_name, split_table_name
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.quantities import parse_duration, parse_size

# For each of the settings that are being validated, inside out: what was given and is right alone.
_Notes: TypeAlias = list[dict[str, Any]]  # Any: each setting is of its own type


class Settings(BaseModel):
    """Frozen values that were checked. A subclass declares each by a type of this module, and `setting`."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    purpose: ClassVar[str]  # what cannot be done with mistakes, as in "a sink cannot be made"
    noun: ClassVar[str] = "setting"  # what users call one of them
    words: ClassVar[Mapping[str, str]] = {}  # what users call other things than Python does

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Return the settings; raise InvalidInput that lists everything that is wrong with them."""
        notes: _Notes = []
        try:
            return cls.model_validate(given, context=notes)
        except ValidationError as error:
            raise cls._refusal(cls._problems(error)) from None

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see parse
        """Yield what is wrong only together, of the values that were given and are right alone."""
        del right
        yield from ()

    @classmethod
    def omissions(cls, right: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:  # Any: see _Notes
        """Yield what is missing beside the values that are right alone. `given` are the names of all that was given."""
        del right, given
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
        if info.context and info.field_name is not None:
            info.context[-1][info.field_name] = value
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _find_mistakes(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Add what contradicts to what is wrong; where a subclass is called, and not `parse`, raise our own error."""
        if info.context is not None:
            return cls._with_contradictions(given, handler, info.context)
        try:
            return handler(given)
        except ValidationError as error:
            raise cls._refusal(cls._problems(error)) from None

    @classmethod
    def _with_contradictions(cls, given: Any, handler: ModelWrapValidatorHandler[Self], notes: _Notes) -> Self:
        mistakes: list[InitErrorDetails] = []
        found: Self | None = None
        notes.append({})
        try:
            found = handler(given)
        except ValidationError as error:
            mistakes = [found_again(details) for details in error.errors(include_url=False)]
        right = notes.pop()
        if isinstance(given, Mapping):
            told = [*cls.omissions(right, given), *cls.contradictions(right)]
            mistakes += map(contradiction, told)
        if found is None or mistakes:
            raise ValidationError.from_exception_data(cls.__name__, mistakes)
        return found

    @classmethod
    def _refusal(cls, problems: list[str]) -> InvalidInput:
        return InvalidInput(f"{cls.purpose}: " + "; ".join(problems), problems=problems)

    @classmethod
    def _problems(cls, error: ValidationError) -> list[str]:
        return [cls._in_words(cls._problem(details)) for details in error.errors(include_url=False)]

    @classmethod
    def _in_words(cls, told: str) -> str:
        for ours, theirs in cls.words.items():
            told = told.replace(ours, theirs)
        return told

    @classmethod
    def _problem(cls, details: ErrorDetails) -> str:
        place = find_place(cls, details["loc"])
        kind = place.holder if issubclass(place.holder, Settings) else cls
        match details["type"]:
            case "extra_forbidden":
                return joined(place.path if len(place.names) > 1 else "", kind.unknown(place.names[-1]))
            case "missing":
                return kind.missing(place.path)
            case _:
                return tell(place, details)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield what was given, without passwords: for everything that shows a model, such as rich."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default:
                continue
            yield name, _shown(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__repr_args__())})"

    __str__ = __repr__


def _shown(name: str, value: Any) -> Any:  # Any: see Settings.parse
    """Return a value as it may be shown."""
    if isinstance(value, str) and not isinstance(value, ReferencedText):
        return shown_catalog(value) if name in ("catalog", "url") else hide_password(value)
    return as_written(value)


def setting(
    meaning: str, *, default: Any = ..., shown: str | None = None, alias: str | None = None
) -> Any:  # Any: it stands for any field
    """Declare a setting; without a default it must be given.

    `shown`: how docs show the default, else by its repr. `alias`: what users call it, where a field cannot be.
    """
    return Field(
        default, alias=alias, description=meaning, json_schema_extra=None if shown is None else {"shown": shown}
    )


def shown_default(field: FieldInfo) -> str | None:
    """Return how docs show a default that they do not show by its repr."""
    shown = field.json_schema_extra.get("shown") if isinstance(field.json_schema_extra, dict) else None
    return None if shown is None else str(shown)


def derived(
    name: str,
    kind: type[Settings],
    *,
    base: type[Settings],
    leave_out: Collection[str],
    around: Mapping[str, object] | None = None,
) -> Any:  # Any: a class that is made while the program runs is no type for a type checker
    """Return a class with the settings of another, so that each is declared once; names are those of its fields.

    `around`: validators that see a setting's value before its own type does; under "*", of every setting.
    """
    around = around or {}
    fields: dict[str, Any] = {}  # Any: what pydantic takes for a field
    for key, field in kind.model_fields.items():
        if key not in leave_out:
            outer = [around[one] for one in (key, "*") if one in around]
            declared = setting(field.description or "", default=field.default, shown=shown_default(field))
            fields[key] = (Annotated[field.annotation, *field.metadata, *outer], declared)
    return create_model(name, __base__=base, **fields)


def checked(parse: Callable[[Any], object], schema: dict[str, Any]) -> tuple[PlainValidator, WithJsonSchema]:
    """Return what makes a type of settings: `parse` raises ValueError that says what a value must be."""

    def validate(value: Any) -> object:  # Any: whatever a user may get wrong
        try:
            return parse(value)
        except DuckLakeError as error:
            raise refusal(str(error)) from None

    return PlainValidator(validate), WithJsonSchema(schema)


def shown_catalog(address: str) -> str:
    """Return a catalog's address without its password."""
    return CatalogUrl.parse(address).shown


def check_catalog(address: str, metadata_schema: str | None) -> None:
    """Raise InvalidInput where a catalog cannot have its tables in such a schema."""
    CatalogUrl.parse(address, metadata_schema)


def catalog_password(address: str) -> str | None:
    """Return the password in a catalog's address."""
    url = CatalogUrl.parse(address).url
    in_query = (value for name, value in url.query.items() if "password" in name.lower())
    return url.password or next((value if isinstance(value, str) else value[0] for value in in_query), None)


def catalog_in(address: str, folder: Path) -> str:
    """Return a catalog's address; that of a file with its full path, where it is relative to the folder."""
    return address_in(address, folder)


def optional(parse: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value is None else parse(value)


# ------------------------------------------------------------------------------- what a value may be


def text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def catalog(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"a catalog's address is a text, not {type(value).__name__}")
    CatalogUrl.parse(value)
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
