"""What the pipelines of a job do now, for `status --job`: as the job's own process tells it. No Spark."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from ducklake_streaming.metrics.page_facts import LETTER_FIELDS, PIPELINE_FIELDS, WARNING_FIELDS
from ducklake_streaming.overview.lake_state import Section

if TYPE_CHECKING:
    from ducklake_streaming.jobs.metrics_settings import MetricsSettings

_SECTIONS = (
    Section("pipeline", "Pipelines", PIPELINE_FIELDS, (), "no pipeline has begun yet"),
    Section("letters", "Last dead letters of the run", LETTER_FIELDS, (), "none"),
    Section("warning", "Last warnings of the run", WARNING_FIELDS, (), "none"),
)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 # who listens to all is asked on this machine


def run_sections(metrics: MetricsSettings, timeout_seconds: float) -> Sequence[Section]:
    """Ask the process of a job what its pipelines do; where none answers, that is what is said of them."""
    url = facts_url(metrics)
    try:
        rows = _rows(url, metrics.certificate, timeout_seconds)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        return [replace(_SECTIONS[0], empty=f"no process of this job answers at {url}: {reason}")]
    return [replace(one, rows=rows.get(one.kind, [])) for one in _SECTIONS]


def facts_url(metrics: MetricsSettings) -> str:
    """Return where the process of a job tells what it does."""
    host = _EVERYWHERE.get(metrics.host, metrics.host)
    scheme = "http" if metrics.certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{metrics.port}/facts.json"


def _rows(url: str, certificate: str | None, timeout_seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each kind. Any: as JSON has them. Raises OSError or ValueError."""
    trusted = None if certificate is None else ssl.create_default_context(cafile=certificate)
    with build_opener(ProxyHandler({}), HTTPSHandler(context=trusted)).open(url, timeout=timeout_seconds) as answer:
        told = json.load(answer)
    rows = told.get("rows") if isinstance(told, dict) else None
    if not isinstance(rows, dict):
        raise ValueError("this is no page of facts")  # noqa: TRY004 # it is told like other nonsense
    return rows
