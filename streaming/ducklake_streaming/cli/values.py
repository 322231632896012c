"""Moments as options of commands name them. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

from ducklake_core.clock import utc_now


def parse_moment(text: str | None, now: datetime | None = None) -> int | datetime | None:
    """Return the snapshot id or the time that an option names; raise `typer.BadParameter`.

    A number is an id; a time is of ISO 8601, in UTC unless it says otherwise, or a time ago such as `5m`.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return (now or utc_now()) - _ago(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_since(text: str | None, now: datetime | None = None) -> datetime | None:
    """Return the time that `--since` names; raise `typer.BadParameter`."""
    found = parse_moment(text, now)
    if isinstance(found, int):
        raise typer.BadParameter("write a time, or a time ago such as 1h", param_hint="--since")
    return found


def _ago(text: str) -> timedelta:
    from ducklake_core.spec.quantities import parse_duration  # noqa: PLC0415 # see the docstring of the package

    try:
        return parse_duration(text)
    except ValueError:
        raise typer.BadParameter(
            f"'{text}' is neither a snapshot id nor a time: write 42, '2026-11-17 05:30' (in UTC), "
            "or '5m' for five minutes ago"
        ) from None
