"""Paths in a job file: relative ones begin at the file's folder, wherever the job is started. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText, portable
from ducklake_core.settings import catalog_in

# Keys whose texts are paths; `*` is any name.
PATHS = (
    *("catalog.data_path", "spark.jars", "log.file", "pipeline.*.checkpoint"),
    *("metrics.certificate", "metrics.key", "metrics.client_ca"),
    *("pipeline.*.input.path", "pipeline.*.input.schema_file", "pipeline.*.input.registry_options.ca_file"),
    *("pipeline.*.input.data_path", "pipeline.*.input.schema_tracking_location"),
)
CATALOGS = ("catalog.url", "pipeline.*.input.catalog")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def with_full_paths(found: dict[str, Any], folder: Path) -> dict[str, Any]:  # Any: whatever TOML may hold
    """Return what a file says, with its paths and catalogs as they are from anywhere."""
    for places, change in ((PATHS, full_path), (CATALOGS, _full_catalog)):
        for place in places:
            found = _changed(found, place.split("."), partial(_kept, change, folder))
    return found


def full_path(path: str, folder: Path) -> str:
    """Return a path from the root; URLs stay as they are, and so does a slash at the end."""
    if not path or _URL.match(path):
        return path
    return f"{os.path.normpath(folder / Path(path).expanduser())}{'/' if path.endswith('/') else ''}"


def _full_catalog(address: str, folder: Path) -> str:
    try:
        return catalog_in(address, folder)
    except InvalidInput:
        return address  # which is told with the other mistakes


def _kept(change: Callable[[str, Path], str], folder: Path, text: str) -> str:
    """Return the changed text, with what was written if that had references."""
    changed = change(text, folder)
    if not isinstance(text, ReferencedText) or text == changed:
        return text if text == changed else changed
    return ReferencedText(changed, text.written, portable(changed), text.values)


def _changed(value: Any, place: list[str], change: Callable[[str], str]) -> Any:  # Any: see with_full_paths
    if not place:
        return change(value) if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        return value
    first, rest = place[0], place[1:]
    return {name: _changed(one, rest, change) if first in ("*", name) else one for name, one in value.items()}
