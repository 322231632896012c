"""What pydantic finds wrong with settings, in our words. Pure; runs wherever settings are taken."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from ducklake_core.setting_paths import Place
from ducklake_core.spec.names import nearest_name
from ducklake_core.spec.paths import hide_password

REFUSED = "refused"  # the kind of a mistake whose error says all, and of which the value is not shown
CONTRADICTION = "contradiction"  # the kind of a mistake that several values make together


class Problem(ValueError):
    """What is wrong with a value, as it is told after the setting's name. A plain ValueError says what it must be."""


def refusal(told: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "{reason}", {"reason": told})


def contradiction(told: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(CONTRADICTION, "{reason}", {"reason": told}), input=None)


def found_again(details: ErrorDetails) -> InitErrorDetails:
    """Return a mistake that was found within, to be raised once more."""
    kind: str | PydanticCustomError = details["type"]
    if kind in (REFUSED, CONTRADICTION):
        kind = PydanticCustomError(details["type"], "{reason}", {"reason": details["msg"]})
    return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"], ctx=details.get("ctx", {}))


def tell(place: Place, details: ErrorDetails) -> str:
    """Return what is wrong with the value at a place."""
    path = place.path
    match details["type"]:
        case "value_error":
            reason = details["ctx"]["error"]
            return f"{path} {reason if isinstance(reason, Problem) else f'is {_shown(details)}, but must be {reason}'}"
        case "union_tag_invalid":
            return f"{path}.{_discriminator(details)} is {details['ctx']['tag']!r}: {_nearest(details, place.tags)}"
        case "union_tag_not_found":
            return f"{path}.{_discriminator(details)} is missing: it is one of {', '.join(place.tags)}"
        case "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            return f"{path} is {_shown(details)}, but must be a group of settings"
        case kind if kind == CONTRADICTION:
            return joined(path, details["msg"])
        case _:
            return f"{path} is wrong: {details['msg']}"


def joined(path: str, told: str) -> str:
    return f"{path}: {told}" if path else told


def _shown(details: ErrorDetails) -> str:
    """Return a wrong value as it may be shown."""
    value = details["input"]
    return "a group of settings" if isinstance(value, Mapping) else hide_password(repr(value))


def _nearest(details: ErrorDetails, known: tuple[str, ...]) -> str:
    near = nearest_name(str(details["ctx"]["tag"]), known)
    return f"did you mean '{near}'?" if near else f"known are {', '.join(known)}"


def _discriminator(details: ErrorDetails) -> str:
    return str(details["ctx"]["discriminator"]).strip("'")
