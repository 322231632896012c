"""What the page shows at one moment, as one value: the run of this process, and the last answer of the catalog. Pure.

The tables are sections, as `ducklake-stream status` has them; the page's JSON has the rows of all of them by kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from ducklake_streaming.metrics.history import Values
from ducklake_streaming.metrics.run_facts import PipelineFacts, RunFacts
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.lake_state import LakeState, Section
from ducklake_streaming.overview.values import shown_age, shown_count, shown_rate, shown_size


def shown_seconds(seconds: float | None) -> str:
    """Return how long something took: `38 ms`, `1.2 s`."""
    if seconds is None:
        return ""
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


_AGE = Field("age_seconds", "age", shown_age, is_number=True)
PIPELINE_FIELDS = (
    Field("pipeline", "pipeline"),
    Field("state", "state"),
    Field("batches", "batches", shown_count, is_number=True),
    Field("rows", "rows", shown_count, is_number=True),
    Field("rows_per_second", "rows/s", shown_rate, is_number=True),
    Field("lag_records", "behind Kafka", shown_count, is_number=True),
    Field("dead_letters", "dead letters", shown_count, is_number=True),
    Field("error", "last error"),
)
BATCH_FIELDS = (
    Field("batch", "batch", is_number=True),
    Field("rows", "rows", shown_count, is_number=True),
    Field("seconds", "took", shown_seconds, is_number=True),
    Field("snapshot", "snapshot", shown_count, is_number=True),
    _AGE,
    Field("outcome", "outcome"),
)
LETTER_FIELDS = (
    _AGE,
    Field("pipeline", "pipeline"),
    Field("table", "meant for"),
    Field("rows", "rows", shown_count, is_number=True),
    Field("kept_in", "kept in"),
    Field("reason", "reason of the first"),
)
FLUSH_FIELDS = (
    _AGE,
    Field("table", "table"),
    Field("rows", "rows", shown_count, is_number=True),
    Field("files", "files", shown_count, is_number=True),
    Field("size_bytes", "size", shown_size, is_number=True),
    Field("seconds", "took", shown_seconds, is_number=True),
)
WARNING_FIELDS = (_AGE, Field("event", "what"), Field("text", "of what, and why"))


@dataclass(frozen=True, slots=True)
class PipelinePlots:
    """The last hour of a pipeline, and the numbers of now."""

    rows_per_second: Values = ()
    batch_seconds: Values = ()
    lag_records: Values = ()
    rate_now: float | None = None
    lag_now: int | None = None


@dataclass(frozen=True, slots=True)
class PageFacts:
    """All of it. `lake` is the last answer of the catalog, of `lake_at`; `problem`: why it does not answer now.

    `inlined`: the last hour of each table with inlined rows. `span_seconds`: how much of an hour plots show.
    """

    now: datetime
    run: RunFacts
    plots: Mapping[str, PipelinePlots]
    inlined: Mapping[str, Values]
    span_seconds: int
    lake: LakeState | None = None
    lake_at: datetime | None = None
    problem: str | None = None

    @property
    def lake_age_seconds(self) -> float | None:
        return None if self.lake_at is None else age(self.lake_at, self.now)

    def pipeline_row(self, one: PipelineFacts) -> Row:
        """Return what is shown of a pipeline in one line."""
        plots = self.plots.get(one.name, PipelinePlots())
        return {
            "pipeline": one.name,
            "state": one.state,
            **asdict(one.totals),
            "rows_per_second": plots.rate_now,
            "lag_records": plots.lag_now,
            "error": one.error,
            "error_age_seconds": None if one.error_at is None else age(one.error_at, self.now),
        }


def run_sections(facts: PageFacts) -> Iterator[Section]:
    """Yield what this process knows by itself, besides the batches of each pipeline."""
    run = facts.run
    letters = [_row(one, facts.now) for one in run.letters]
    flushes = [_row(one, facts.now) for one in run.flushes]
    warnings = [_row(one, facts.now) for one in run.warnings]
    pipelines = [facts.pipeline_row(one) for one in run.pipelines]
    yield Section("pipeline", "Pipelines", PIPELINE_FIELDS, pipelines, "no pipeline has begun yet")
    yield Section("letters", "Last dead letters", LETTER_FIELDS, letters, "none since this process began")
    yield Section("flush", "Last flushes", FLUSH_FIELDS, flushes, "none since this process began")
    yield Section("warning", "Last warnings", WARNING_FIELDS, warnings, "none since this process began")


def batch_section(pipeline: PipelineFacts, now: datetime) -> Section:
    """Return the last batches of a pipeline."""
    rows = [
        {"pipeline": pipeline.name, "batch": one.number, "snapshot": one.snapshot_id, **_row(one, now)}
        for one in pipeline.batches
    ]
    return Section("batch", "Last batches", BATCH_FIELDS, rows, "no batch yet")


def sections_of(facts: PageFacts) -> tuple[Section, ...]:
    """Return all there is: of the run, then of the lake."""
    batches = (batch_section(one, facts.now) for one in facts.run.pipelines)
    return (*run_sections(facts), *batches, *(facts.lake.sections if facts.lake else ()))


def json_facts(facts: PageFacts) -> dict[str, object]:
    """Return what the page shows for machines: the rows of each kind, all their keys."""
    rows: dict[str, list[Row]] = {}
    for section in sections_of(facts):
        rows.setdefault(section.kind, []).extend(section.rows)
    return {
        "time": facts.now,
        "uptime_seconds": age(facts.run.started_at, facts.now),
        "lake": facts.lake.lake if facts.lake else None,
        "lake_age_seconds": facts.lake_age_seconds,
        "catalog_problem": facts.problem,
        "rows": rows,
    }


def age(at: datetime, now: datetime) -> float:
    return round((now - at).total_seconds(), 1)


def _row(thing: object, now: datetime) -> dict[str, object]:
    """Return a value that has a time as a row that has an age."""
    facts = asdict(thing)  # type: ignore[call-overload] # one of the values of a run
    return {**facts, "age_seconds": age(facts["at"], now)}
