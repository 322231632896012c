"""Which run of which query is that of a pipeline: others run queries in the same session. On the driver; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

PipelineOf = Callable[[str | None], str | None]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a query; a query that begins again from its checkpoint is another run of it."""

    query_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class _Owned:
    run: Run
    is_sure: bool  # by its name, or because the sink has seen a batch of it
    is_over: bool = False


class QueryRuns:
    """Keeps one run for each pipeline. A query has its pipeline's name; or none, and then the first one is taken.

    A sink that sees a batch of another run knows better: `claim`. Any thread may tell. `pipeline_of` names the pipeline
    of a query by the query's name; None: it is of no pipeline.
    """

    def __init__(self, pipeline_of: PipelineOf) -> None:
        self._pipeline_of = pipeline_of
        self._lock = threading.Lock()
        self._owned: dict[str, _Owned] = {}

    def of(self, run: Run) -> str | None:
        """Return the pipeline whose run this is."""
        with self._lock:
            return self._find(run)

    def start(self, name: str | None, run: Run, *, is_new: bool = True) -> str | None:
        """Return the pipeline that has this run from now on; None: it is no pipeline's.

        `is_new`: it has just begun; else it was heard of, and may be an old run whose last news come late.
        """
        pipeline = self._pipeline_of(name)
        if pipeline is None:
            return None
        with self._lock:
            known = self._owned.get(pipeline)
            if known is None:
                self._owned[pipeline] = _Owned(run, is_sure=name is not None)
                return pipeline
            is_own = name is not None or known.run.query_id == run.query_id
            if not (_may_follow(known, run, is_new=is_new) if is_own else known.is_over and not known.is_sure):
                return None
            self._owned[pipeline] = _Owned(run, is_sure=name is not None or (is_own and known.is_sure))
            return pipeline

    def claim(self, pipeline: str, run: Run) -> bool:
        """Take notice that the sink of a pipeline has a batch of this run; tell whether that is news."""
        with self._lock:
            known = self._owned.get(pipeline)
            if known is None or (known.run != run and (known.is_over or not known.is_sure)):
                self._owned[pipeline] = _Owned(run, is_sure=True)
                return True
            if known.run == run:
                self._owned[pipeline] = replace(known, is_sure=True)
            return False

    def end(self, run: Run) -> str | None:
        """Return the pipeline whose run has ended with this."""
        with self._lock:
            pipeline = self._find(run)
            if pipeline is not None:
                self._owned[pipeline] = replace(self._owned[pipeline], is_over=True)
            return pipeline

    def _find(self, run: Run) -> str | None:
        return next((name for name, one in self._owned.items() if one.run == run and not one.is_over), None)


def _may_follow(known: _Owned, run: Run, *, is_new: bool) -> bool:
    return is_new or (known.is_over and known.run != run)
