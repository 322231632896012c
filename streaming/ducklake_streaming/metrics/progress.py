"""Counts what queries tell of themselves: rows read, offsets, and that they go on. Runs on the driver; no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.observe import NO_RECORDER, Recorder
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineStarted
from ducklake_streaming.jobs.exit_codes import exit_code_of
from ducklake_streaming.kafka.places import Offsets, offsets_of_source
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.health import Health
from ducklake_streaming.metrics.query_runs import PipelineOf, QueryRuns, Run
from ducklake_streaming.metrics.registry import Numbers

INSERT = "insert"


class ProgressCounter:
    """Takes Spark's JSON of what happens to queries. `pipeline_of`: see QueryRuns."""

    def __init__(
        self,
        numbers: Numbers,
        health: Health,
        pipeline_of: PipelineOf,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._numbers = numbers
        self._health = health
        self._runs = QueryRuns(pipeline_of)
        self._clock = clock
        self._offsets: dict[str, Offsets] = {}
        self._followers: dict[str, Recorder] = {}
        self._inserting: set[str] = set()

    def follow(self, pipeline: str, recorder: Recorder) -> None:
        """Tell a recorder that the query of a pipeline starts and ends, for nobody else says so."""
        self._followers[pipeline] = recorder

    def count_as_inserts(self, pipeline: str) -> None:
        """Count all that a pipeline reads as inserts: it reads a table's changes, and no others are told to it."""
        self._inserting.add(pipeline)

    def offsets_of(self, pipeline: str) -> Offsets:
        """Return where the pipeline goes on in each partition of Kafka, as far as it has told."""
        return self._offsets.get(pipeline, {})

    def started(self, told: Mapping[str, Any]) -> None:  # Any: JSON of Spark
        self._start(told, is_new=True)

    def claim(self, pipeline: str, run: Run) -> None:
        """Take notice that the sink of a pipeline has a batch of this run."""
        if self._runs.claim(pipeline, run):
            self._tell(PipelineStarted(pipeline))

    def ended(self, told: Mapping[str, Any]) -> None:  # Any: see above
        pipeline, reason = self._runs.end(_run(told)), told.get("exception")
        if pipeline is None:
            return
        error = None if reason is None else RuntimeError(str(reason))
        self._tell(PipelineEnded(pipeline) if error is None else PipelineFailed(pipeline, exit_code_of(error), error))

    def progressed(self, told: Mapping[str, Any]) -> None:  # Any: see above
        pipeline = self._runs.of(_run(told)) or self._start(told, is_new=False)
        if pipeline is None:
            return
        sources = [one for one in told.get("sources", ()) if isinstance(one, Mapping)]
        rows = sum(one.get("numInputRows") or 0 for one in sources)
        self._note(pipeline)
        self._numbers.add(m.SINK_INPUT_ROWS, rows, pipeline)
        self._numbers.add(m.SOURCE_LOST_SNAPSHOTS, sum(map(lost_snapshots, sources)), pipeline)
        if pipeline in self._inserting:
            self._numbers.add(m.SOURCE_ROWS, rows, pipeline, INSERT)
        ends = {place: end for one in sources for place, end in offsets_of_source(one.get("endOffset")).items()}
        if ends:
            self._offsets[pipeline] = ends

    def idle(self, told: Mapping[str, Any]) -> None:  # Any: see above
        """Take notice that a query had nothing to do. Spark says no name here, so that only known ones count."""
        pipeline = self._runs.of(_run(told))
        if pipeline is not None:
            self._note(pipeline)

    def _start(self, told: Mapping[str, Any], *, is_new: bool) -> str | None:  # Any: see above
        """Return the pipeline of a query, which has just started, or before anybody listened."""
        pipeline = self._runs.start(told.get("name"), _run(told), is_new=is_new)
        if pipeline is not None:
            self._tell(PipelineStarted(pipeline))
        return pipeline

    def _tell(self, event: PipelineStarted | PipelineEnded | PipelineFailed) -> None:
        self._followers.get(event.pipeline, NO_RECORDER).record(event)

    def _note(self, pipeline: str) -> None:
        self._health.note_progress(pipeline)
        self._numbers.set(m.SINK_LAST_PROGRESS, self._clock.now().timestamp(), pipeline)


def _run(told: Mapping[str, Any]) -> Run:  # Any: JSON of Spark
    return Run(str(told["id"]), str(told["runId"]))


def lost_snapshots(source: Mapping[str, Any]) -> int:  # Any: JSON of Spark
    """Return how many snapshots a batch of our own source has passed over because they had expired."""
    start, end = (_lost(source.get(name)) for name in ("startOffset", "endOffset"))
    return max(0, end - start)


def _lost(offset: object) -> int:
    lost = offset.get("lost_snapshots", 0) if isinstance(offset, Mapping) and "table_uuid" in offset else 0
    return lost if isinstance(lost, int) else 0
