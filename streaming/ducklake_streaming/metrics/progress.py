"""Counts what queries tell of themselves: rows read, offsets, and that they go on. Runs on the driver; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.observe import NO_RECORDER, Recorder
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineStarted
from ducklake_streaming.jobs.exit_codes import exit_code_of
from ducklake_streaming.kafka.places import Offsets, offsets_of_source
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.health import Health
from ducklake_streaming.metrics.registry import Numbers

INSERT = "insert"


class ProgressCounter:
    """Takes Spark's JSON of what happens to queries.

    `pipeline_of` names the pipeline of a query by the query's name; None: it is of no pipeline.
    """

    def __init__(
        self,
        numbers: Numbers,
        health: Health,
        pipeline_of: Callable[[str | None], str | None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._numbers = numbers
        self._health = health
        self._pipeline_of = pipeline_of
        self._clock = clock
        self._pipelines: dict[str, str] = {}  # by the id of the query
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
        pipeline = self._pipeline_of(told.get("name"))
        if pipeline is not None:
            self._pipelines[str(told["id"])] = pipeline
            self._followers.get(pipeline, NO_RECORDER).record(PipelineStarted(pipeline))

    def ended(self, told: Mapping[str, Any]) -> None:  # Any: see above
        pipeline, reason = self._pipelines.pop(str(told["id"]), None), told.get("exception")
        if pipeline is None:
            return
        error = None if reason is None else RuntimeError(str(reason))
        event = PipelineEnded(pipeline) if error is None else PipelineFailed(pipeline, exit_code_of(error), error)
        self._followers.get(pipeline, NO_RECORDER).record(event)

    def progressed(self, told: Mapping[str, Any]) -> None:  # Any: see above
        if str(told["id"]) not in self._pipelines:  # it has started before anybody listened
            self.started(told)
        pipeline = self._pipelines.get(str(told["id"]))
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
        pipeline = self._pipelines.get(str(told["id"]))
        if pipeline is not None:
            self._note(pipeline)

    def _note(self, pipeline: str) -> None:
        self._health.note_progress(pipeline)
        self._numbers.set(m.SINK_LAST_PROGRESS, self._clock.now().timestamp(), pipeline)


def lost_snapshots(source: Mapping[str, Any]) -> int:  # Any: JSON of Spark
    """Return how many snapshots a batch of our own source has passed over because they had expired."""
    start, end = (_lost(source.get(name)) for name in ("startOffset", "endOffset"))
    return max(0, end - start)


def _lost(offset: object) -> int:
    lost = offset.get("lost_snapshots", 0) if isinstance(offset, Mapping) and "table_uuid" in offset else 0
    return lost if isinstance(lost, int) else 0
