"""What stands at the top of the page: who it is, what is wrong, the first numbers, and each pipeline. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ducklake_streaming.metrics.history import Values
from ducklake_streaming.metrics.markup import Markup, tag
from ducklake_streaming.metrics.page_facts import PageFacts, PipelinePlots, age, batch_section, shown_seconds
from ducklake_streaming.metrics.plots import Plot, draw
from ducklake_streaming.metrics.run_facts import PipelineFacts, State
from ducklake_streaming.metrics.tables import section_table
from ducklake_streaming.overview.fields import plain_text
from ducklake_streaming.overview.values import shown_age, shown_count, shown_rate, shown_size, shown_time

STALE_SECONDS = 120.0  # an answer of the catalog that is older is said to be old
_MOODS = {
    State.RUNNING: "good",
    State.STARTING: "idle",
    State.ENDED: "idle",
    State.NO_CATALOG: "slow",
    State.NO_BROKER: "slow",
    State.FAILED: "bad",
    State.FENCED: "bad",
}


def headline(facts: PageFacts) -> Markup:
    """Return whose page this is, and of when."""
    lake = facts.lake.lake if facts.lake else {}
    where = tag("p", plain_text(lake.get("catalog")), class_="where") if lake else None
    uptime = shown_age(age(facts.run.started_at, facts.now))
    return tag(
        "header",
        tag("div", tag("h1", "ducklake-stream"), where),
        tag("p", tag("i", class_="pulse"), tag("time", shown_time(facts.now)), f" · up {uptime}", class_="when"),
        tag("p", "This page is not live any more: the process does not answer.", class_="lost", role="status"),
    )


def catalog_notice(facts: PageFacts) -> Markup | None:
    """Return what is wrong with the catalog's answers, if anything is."""
    seen = facts.lake_age_seconds
    then = (
        "Nothing is known of the lake yet." if seen is None else f"What is shown of the lake is {shown_age(seen)} old."
    )
    if facts.problem is not None:
        return tag(
            "p", tag("b", "The catalog does not answer. "), f"{then} ", _code(facts.problem), class_="notice bad"
        )
    if seen is None:
        return tag("p", "The catalog has not been asked yet.", class_="notice")
    is_old = seen > STALE_SECONDS
    return (
        tag("p", tag("b", "The catalog has not been asked for long. "), then, class_="notice slow") if is_old else None
    )


def tiles(facts: PageFacts) -> Markup:
    """Return the numbers that people look for first."""
    plots, totals = facts.plots.values(), [one.totals for one in facts.run.pipelines]
    lags = [one.lag_now for one in plots if one.lag_now is not None]
    shown = [
        _tile("rows/s", shown_rate(_sum(one.rate_now for one in plots))),
        _tile("rows so far", shown_count(sum(one.rows for one in totals))),
        _tile("behind Kafka", shown_count(sum(lags)), "records") if lags else None,
        *_lake_tiles(facts),
        _tile(
            "dead letters",
            shown_count(letters := sum(one.dead_letters for one in totals)),
            mood="slow" if letters else None,
        ),
    ]
    return tag("div", *shown, class_="tiles")


def _lake_tiles(facts: PageFacts) -> list[Markup]:
    if facts.lake is None:
        return []
    tables, lake = facts.lake.totals.tables, facts.lake.lake
    files, small = sum(one.files for one in tables), sum(one.small_files for one in tables)
    size = shown_size(sum(one.file_bytes for one in tables))
    return [
        _tile("inlined rows", shown_count(sum(one.inlined.rows for one in tables))),
        _tile("data files", shown_count(files), f"{size}, {shown_count(small)} small"),
        _tile("snapshot", shown_count(facts.lake.totals.head.snapshot_id), f"{plain_text(lake.get('snapshots'))} kept"),
    ]


def _tile(title: str, value: str, detail: str | None = None, mood: str | None = None) -> Markup:
    small = None if detail is None else tag("small", detail)
    return tag("div", tag("span", title), tag("b", value or "–"), small, class_=f"tile {mood or ''}".strip())


def pipeline_card(facts: PageFacts, one: PipelineFacts) -> Markup:
    """Return a pipeline: its state, its last error, its plots and last batches."""
    plots = facts.plots.get(one.name, PipelinePlots())
    title = tag(
        "header", tag("h3", plain_text(one.name)), tag("span", one.state.value, class_=f"pill {_MOODS[one.state]}")
    )
    drawn = tag("div", *(draw(plot) for plot in _plots(plots)), class_="plots")
    batches = section_table(batch_section(one, facts.now))
    return tag("article", title, _error(facts, one), drawn, batches, tag("p", _totals(one), class_="totals"))


def _plots(plots: PipelinePlots) -> list[Plot]:
    every = (
        Plot("rows/s", plots.rows_per_second, shown_rate, "rows"),
        Plot("seconds of a batch", plots.batch_seconds, shown_seconds, "seconds"),
        Plot("records behind Kafka", plots.lag_records, lambda lag: shown_count(int(lag)), "lag"),
    )
    return [plot for plot in every if _has_any(plot.values)]


def _has_any(values: Values) -> bool:
    return any(value is not None for value in values)


def _error(facts: PageFacts, one: PipelineFacts) -> Markup | None:
    if one.error is None or one.error_at is None:
        return None
    when = f"last error, {shown_age(age(one.error_at, facts.now))} ago: "
    is_over = one.state in (State.FAILED, State.FENCED)
    return tag("p", tag("b", when), _code(one.error), class_="notice bad" if is_over else "notice")


def _totals(one: PipelineFacts) -> str:
    totals = one.totals
    parts = [f"{shown_count(totals.batches)} batches", f"{shown_count(totals.rows)} rows"]
    more = (("replayed", totals.replayed), ("failed", totals.failed), ("dead letters", totals.dead_letters))
    parts += [f"{shown_count(number)} {name}" for name, number in more if number]
    return "Since the start: " + ", ".join(parts)


def _code(text: str) -> Markup:
    return tag("code", plain_text(text))


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
