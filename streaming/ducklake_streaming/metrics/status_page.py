"""Keeps the facts of the page and answers `/` and `/facts.json` with them. On the driver; no answer asks the catalog.

What happens comes by the recorder `run`, the rest from who polls, by `hear_lake`, `hear_problem` and `hear_lag`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from ducklake_core.clock import Now, utc_now
from ducklake_core.errors import DuckLakeError
from ducklake_core.log_lines import one_line
from ducklake_streaming.metrics.answers import HTML, JSON, Answer, MakeAnswer
from ducklake_streaming.metrics.declared import SINK_KAFKA_LAG
from ducklake_streaming.metrics.history import History, Measure
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.page import PAGE_HEADERS, write_page
from ducklake_streaming.metrics.page_facts import PageFacts, PipelinePlots, json_facts
from ducklake_streaming.metrics.page_secrets import hide_secrets
from ducklake_streaming.metrics.registry import Numbers
from ducklake_streaming.metrics.run_state import RunState
from ducklake_streaming.overview.lake_state import LakeState

SHOWN_INLINED = 8  # tables with a plot
KEPT_INLINED = 64  # tables whose last hour is kept: those with most rows


@dataclass(frozen=True, slots=True)
class _Heard:
    """The last answer of the catalog, and what it did not answer since."""

    lake: LakeState | None = None
    at: datetime | None = None
    problem: str | None = None


class StatusPage:
    """One page. `run` hears what happens; `redact` takes secrets out of texts."""

    def __init__(self, now: Now = utc_now, redact: Callable[[str], str] = str) -> None:
        self._history = History()
        self.run = RunState(self._history, now, redact)
        self._now, self._redact = now, redact
        self._lock = threading.Lock()
        self._heard = _Heard()

    def routes(self) -> Mapping[str, MakeAnswer]:
        """Return what is answered, by path."""
        return {"/": self.page, "/facts.json": self.facts_json}

    def hears_lake(self, poll: LakePoll) -> Callable[[], None]:
        """Return a poll of the lake that also tells the page what it has found, or that it has not."""

        def ask() -> None:
            try:
                poll()
            except DuckLakeError as error:
                self.hear_problem(error)
                raise
            self.run.note_catalog_answer()
            if poll.state is not None:
                self.hear_lake(poll.state)

        return ask

    def hears_lag(self, poll: Callable[[], None], pipeline: str, numbers: Numbers) -> Callable[[], None]:
        """Return a poll of Kafka that also tells the page how far a pipeline is behind."""

        def ask() -> None:
            poll()
            series = numbers.series(SINK_KAFKA_LAG).items()
            self.hear_lag(pipeline, sum(records for labels, records in series if labels[0] == pipeline))

        return ask

    def hear_lake(self, lake: LakeState) -> None:
        """Take the lake as it was just found."""
        at = self._now()
        with self._lock:
            self._heard = _Heard(lake, at)
        known = set(self._history.names(Measure.INLINED_ROWS))
        tables = [one for one in lake.totals.tables if one.inlined.rows or one.name in known]
        most = sorted(tables, key=lambda one: (one.inlined.rows, one.name in known), reverse=True)[:KEPT_INLINED]
        self._history.keep_only(Measure.INLINED_ROWS, {one.name for one in most})
        for table in most:
            self._history.add(Measure.INLINED_ROWS, table.name, at, table.inlined.rows)

    def hear_lag(self, pipeline: str, records: float) -> None:
        """Take how many records a pipeline is behind Kafka, as it was just found."""
        self._history.add(Measure.LAG_RECORDS, pipeline, self._now(), records)

    def hear_problem(self, error: BaseException) -> None:
        """Take notice that the catalog did not answer; what it said last stays, with its age."""
        with self._lock:
            self._heard = _Heard(self._heard.lake, self._heard.at, one_line(error))

    def facts(self) -> PageFacts:
        """Return what there is to show now, without secrets."""
        with self._lock:
            heard = self._heard
        now, run = self._now(), self.run.facts()
        plots = {one.name: self._plots(one.name, now) for one in run.pipelines}
        inlined, span = self._inlined(heard.lake, now), self._history.span_seconds(now)
        found = PageFacts(now, run, plots, inlined, span, heard.lake, heard.at, heard.problem)
        return hide_secrets(found, self._redact)

    def page(self) -> Answer:
        """Answer `/`."""
        return Answer(_bytes(write_page(self.facts())), HTML, headers=PAGE_HEADERS)

    def facts_json(self) -> Answer:
        """Answer `/facts.json`."""
        text = json.dumps(json_facts(self.facts()), default=_json_value, ensure_ascii=False, allow_nan=False)
        return Answer(_bytes(text), JSON, headers=PAGE_HEADERS)

    def _plots(self, name: str, now: datetime) -> PipelinePlots:
        rows = self._history.values(Measure.ROWS, name, now)
        seconds = self._history.values(Measure.BATCH_SECONDS, name, now)
        lag = self._history.values(Measure.LAG_RECORDS, name, now)
        last = lag[-1] if lag else None
        return PipelinePlots(rows, seconds, lag, self._history.rate(name, now), None if last is None else int(last))

    def _inlined(self, lake: LakeState | None, now: datetime) -> dict[str, tuple[float | None, ...]]:
        """Return the plots of the tables with most inlined rows."""
        if lake is None:
            return {}
        known = set(self._history.names(Measure.INLINED_ROWS))
        tables = sorted((one for one in lake.totals.tables if one.name in known), key=lambda one: -one.inlined.rows)
        names = sorted(one.name for one in tables[:SHOWN_INLINED])
        return {name: tuple(self._history.values(Measure.INLINED_ROWS, name, now)) for name in names}


def _bytes(text: str) -> bytes:
    """Encode a text; an error may quote bytes of a record that are no UTF-8."""
    return text.encode(errors="replace")


def _json_value(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
