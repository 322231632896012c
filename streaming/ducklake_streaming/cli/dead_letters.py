"""The commands `dead-letters list`, `show` and `replay`. Only a replay needs Spark."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode, exit_code_of
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, add_lake_group
from ducklake_streaming.cli.output import Output
from ducklake_streaming.cli.run import JobFile
from ducklake_streaming.cli.values import parse_since
from ducklake_streaming.overview.fields import Field
from ducklake_streaming.overview.values import shown_time

if TYPE_CHECKING:
    from ducklake_core import Lake
    from ducklake_streaming.jobs.job_file import LoadedJob
    from ducklake_streaming.jobs.letter_filter import LetterFilter

FIELDS = (
    Field("table", "table"),
    Field("id", "id", is_number=True),
    Field("quarantined_at", "quarantined at", shown_time),
    Field("stream", "stream"),
    Field("topic", "topic"),
    Field("partition", "partition", is_number=True),
    Field("offset", "offset", is_number=True),
    Field("replayed_at", "replayed at", shown_time),
    Field("reason", "reason"),
)
_LISTED = tuple(field.key for field in FIELDS)
Reason = Annotated[str | None, typer.Option(help="Only letters whose reason is LIKE this: '%amount%'.")]
Topic = Annotated[str | None, typer.Option(help="Only letters of records of this topic.")]
Since = Annotated[str | None, typer.Option(help="Only letters since a time, or since so long ago, as 1h.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest first.")]
LetterTable = Annotated[str | None, typer.Option("--table", help="The table of the letters; by default all there are.")]
Ids = Annotated[list[int] | None, typer.Argument(help="Ids of letters, as `list` shows them; by default all.")]
SomeIds = Annotated[list[int], typer.Argument(help="Ids of letters, as `list` shows them.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    explanation = "Look at what could not be stored, and feed it in again."
    group = add_lake_group(app, "dead-letters", explanation, list_letters)
    add_lake_command(group, "list", list_letters)
    add_lake_command(group, "show", show_letters)
    group.command("replay")(replay)


def list_letters(
    access: LakeAccess,
    *,
    table: LetterTable = None,
    reason: Reason = None,
    topic: Topic = None,
    since: Since = None,
    limit: Limit = 100,
) -> None:
    """List dead letters, the oldest of each table first.

    Example: `ducklake-stream dead-letters list --reason '%no bigint%'`
    """
    with access.lake() as lake:
        found = [
            {"table": name, **{key: letter.get(key) for key in _LISTED if key != "table"}}
            for name in _tables(lake, table)
            for letter in _filter(reason, topic, since, limit).read(lake, name).to_pylist()
        ]
    access.output.show(FIELDS, found[:limit], empty="no dead letters")


def show_letters(access: LakeAccess, ids: SomeIds, *, table: LetterTable = None) -> None:
    """Show all that is known of some letters: the record's bytes as text, or in base64 where they are no UTF-8.

    Example: `ducklake-stream dead-letters show 17 --table main.dead_letters`
    """
    with access.lake() as lake:
        names = list(_tables(lake, table))
        if len(names) > 1:
            raise CommandError(f"in which table? Name it by --table: {', '.join(names)}", ExitCode.USAGE)
        letters = [one for name in names for one in _filter(ids=ids).read(lake, name).to_pylist()]
    if not letters:
        raise CommandError("there is no such dead letter", ExitCode.USAGE)
    for letter in letters:
        _show(access.output, letter)


def replay(  # noqa: PLR0913 # each is a choice that users make, by name
    file: JobFile,
    ids: Ids = None,
    *,
    pipeline: Annotated[str | None, typer.Option(help="Whose letters; needed where the job has several.")] = None,
    reason: Reason = None,
    topic: Topic = None,
    since: Since = None,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be fed in; needs no Java.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Show one JSON object per line.")] = False,
) -> None:
    """Feed dead letters through their pipeline again, each exactly once. It needs Java.

    Rows go in and letters are marked in one snapshot. Letters that fail again stay, with the new reason. The job may
    run meanwhile.

    Example: `ducklake-stream dead-letters replay job.toml --reason '%no bigint%'`
    """
    from ducklake_streaming.jobs.exit_codes import line_of_error  # noqa: PLC0415 # it imports what jobs need
    from ducklake_streaming.jobs.job_file import load_job  # noqa: PLC0415 # likewise

    loaded = load_job(file)
    name = _pipeline(list(loaded.job.pipeline), pipeline, file)
    which, output = _filter(reason, topic, since, limit, ids or ()), Output(as_json=as_json)
    from pyspark.errors import PySparkException  # noqa: PLC0415 # a command without Spark does without it

    from ducklake_core.errors import DuckLakeError  # noqa: PLC0415 # see `_filter`

    try:
        _run(loaded, name, which, output, dry_run=dry_run)
    except (DuckLakeError, PySparkException) as error:
        raise CommandError(loaded.redactor.redact(line_of_error(error)), exit_code_of(error)) from error


def _run(loaded: LoadedJob, name: str, which: LetterFilter, output: Output, *, dry_run: bool) -> None:
    from ducklake_streaming.jobs.job_lake import open_job_lake  # noqa: PLC0415 # see `replay`
    from ducklake_streaming.jobs.job_logs import start_logging  # noqa: PLC0415 # see `replay`
    from ducklake_streaming.jobs.job_session import make_job_session  # noqa: PLC0415 # it imports Spark
    from ducklake_streaming.jobs.replay import LetterReplay  # noqa: PLC0415 # likewise

    job = loaded.job
    with (
        closing(LetterReplay(job, name)) as again,
        open_job_lake(job.catalog) as lake,
    ):
        if dry_run:
            rows = [{"table": again.table, **letter} for letter in again.find(lake, which).to_pylist()]
            output.show(FIELDS, [{key: row.get(key) for key in _LISTED} for row in rows], empty="no dead letters")
            return
        start_logging(loaded.redactor, job.log)
        result = again.run(lake, which, lambda: make_job_session(job))
    fields = (Field("replayed", "replayed", is_number=True), Field("failed", "failed again", is_number=True))
    output.show(fields, [{"replayed": result.replayed, "failed": result.failed}])


def _pipeline(known: list[str], named: str | None, file: Path) -> str:
    if named is None and len(known) == 1:
        return known[0]
    if named not in known:
        raise CommandError(f"which pipeline of {file}? Name it by --pipeline: {', '.join(known)}", ExitCode.USAGE)
    return named


def _tables(lake: Lake, named: str | None) -> list[str]:
    from ducklake_streaming.jobs.letter_filter import letter_tables  # noqa: PLC0415 # see `_filter`

    return [named] if named is not None else list(letter_tables(lake))


def _filter(
    reason: str | None = None,
    topic: str | None = None,
    since: str | None = None,
    limit: int | None = None,
    ids: Any = (),  # Any: typer gives a list
) -> LetterFilter:
    from ducklake_streaming.jobs.letter_filter import LetterFilter  # noqa: PLC0415 # it imports PyArrow

    return LetterFilter(reason=reason, topic=topic, since=parse_since(since), limit=limit, ids=ids)


def _show(output: Output, letter: Mapping[str, Any]) -> None:  # Any: columns of a letter
    plain = {key: _text(value) if isinstance(value, bytes) else value for key, value in letter.items()}
    if output.as_json:
        output.show((), [plain])
        return
    rows = [{"column": key, "value": value} for key, value in plain.items() if value is not None]
    output.show((Field("column", "column"), Field("value", "value")), rows)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"
