"""Runs a job: one Spark application, one query for each pipeline, until they end or the process is told to. Driver.

Python is the parent process: a signal comes to us, and not to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from pyspark.sql import SparkSession

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import CatalogUnavailable, NoLakeFound
from ducklake_core.observe import LOG_RECORDER, Recorder, Recorders
from ducklake_core.retries import Patience
from ducklake_streaming.jobs.assembly import Assembly
from ducklake_streaming.jobs.events import JobEnded, JobStopping
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.jobs.job_file import LoadedJob
from ducklake_streaming.jobs.job_lake import open_job_lake
from ducklake_streaming.jobs.job_metrics import JobMetrics
from ducklake_streaming.jobs.job_session import make_job_session
from ducklake_streaming.jobs.job_tracing import begin_tracing
from ducklake_streaming.jobs.maintainer import Maintainer
from ducklake_streaming.jobs.settings import CatalogSettings
from ducklake_streaming.jobs.supervisor import Supervisor
from ducklake_streaming.stopping import JVM_GONE, StopFlag, flag_of_signals

POLL_SECONDS = 0.2


def run_job(loaded: LoadedJob, recorder: Recorder | None = None, clock: Clock = SYSTEM_CLOCK) -> ExitCode:
    """Run a job to its end and return with which code the process is to end. Call it in the main thread.

    SIGTERM and SIGINT end it after the batches that run, a second one at once. Raises what keeps it from beginning:
    InvalidInput, or what opening the lake raises. What makes a pipeline fail is recorded, and decides the code.
    """
    job = loaded.job
    with flag_of_signals() as flag, ExitStack() as stack:
        recorder = Recorders(recorder or LOG_RECORDER, *begin_tracing(loaded, stack))
        metrics = JobMetrics.of(loaded, recorder, stack)
        recorder = Recorders(recorder, metrics.lake_recorder)
        await_catalog(job.catalog, flag, recorder)
        if flag.is_set:
            return ExitCode.ENDED
        spark = make_job_session(job)
        stack.callback(_stop, spark)
        metrics.watch(spark, stack)
        assembly = Assembly(spark, job, flag, recorder, stack, metrics, clock)
        supervisors = [assembly.supervisor(name) for name in job.pipeline]
        for supervisor in supervisors:
            supervisor.begin()
        maintainer = assembly.begin_maintenance()
        _wait(supervisors, maintainer, flag, recorder, clock, stops_together=job.job.on_failure == "stop")
        return _end(supervisors, recorder)


def await_catalog(catalog: CatalogSettings, flag: StopFlag, recorder: Recorder) -> None:
    """Wait for the catalog before Spark starts, unless a signal comes. Raises what opening the lake raises.

    A lake that is not there is created by the first batch, where the file says where its files go.
    """
    patience = Patience(catalog.timeout.total_seconds(), lambda: flag.is_set)
    try:
        open_job_lake(catalog, patience, recorder).close()
    except NoLakeFound:
        if catalog.data_path is None:
            raise
    except CatalogUnavailable:
        if not flag.is_set:
            raise


def _stop(spark: SparkSession) -> None:
    """End Spark; its JVM may have ended before, which is what a pipeline has failed of."""
    with suppress(*JVM_GONE):
        spark.stop()


def _wait(
    supervisors: Sequence[Supervisor],
    maintainer: Maintainer | None,
    flag: StopFlag,
    recorder: Recorder,
    clock: Clock,
    *,
    stops_together: bool,
) -> None:
    """Wait until all pipelines have ended; a signal ends them, and so does one that fails, where that is told.

    Maintenance is told to end with them, and is waited for later.
    """
    is_stopping = False
    while any(one.is_running for one in supervisors):
        failed = next((one.name for one in supervisors if one.has_failed), None)
        reason = flag.name or (failed if stops_together else None)
        if reason is not None and not is_stopping:
            is_stopping = True
            recorder.record(JobStopping(reason))
            for one in supervisors:
                one.stop()
            if maintainer is not None:
                maintainer.stop()
        clock.sleep(POLL_SECONDS)


def _end(supervisors: Sequence[Supervisor], recorder: Recorder) -> ExitCode:
    """Return the code of the job: that of the pipeline which failed first."""
    failed = sorted((one for one in supervisors if one.has_failed), key=lambda one: one.failed_at)
    code = failed[0].code if failed else ExitCode.ENDED
    recorder.record(JobEnded(code, tuple(one.name for one in failed)))
    LOG_RECORDER.flush()
    return code
