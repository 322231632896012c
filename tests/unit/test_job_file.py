"""Job files: what they say becomes settings, and every mistake is told at once, with its key and what helps."""

import json
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import Flag, derived, setting
from ducklake_sinks import DuckLakeSink, FlushPolicy
from ducklake_sinks.options import SinkOptions
from ducklake_sources.options import FOR_TABLES_ONLY, SourceOptions
from ducklake_streaming.jobs.job_file import LoadedJob, load_job
from ducklake_streaming.jobs.settings import (
    DuckLakeInput,
    FilesInput,
    KafkaInput,
    Pipeline,
    SinkSettings,
    TriggerSetting,
)
from ducklake_streaming.jobs.sink_settings import FROM_ELSEWHERE

MISTAKES = tomllib.loads((Path(__file__).parent / "job_mistakes.toml").read_text())["mistake"]
EXPECTED = "Expecting property name enclosed in double quotes"  # says json
START = """
[catalog]
url = "sqlite:///lake.sqlite"
"""
NUMBERS = """
[pipeline.numbers]
checkpoint = "checkpoints/numbers"
input = { kind = "rate" }
sink = { table = "main.numbers" }
"""


def _load(folder: Path, text: str, environment: dict[str, str] | None = None) -> LoadedJob:
    (folder / "job.toml").write_text(text)
    return load_job(folder / "job.toml", environment or {})


def _pipeline(folder: Path, old: str, new: str) -> Pipeline:
    assert old in NUMBERS
    return _load(folder, START + NUMBERS.replace(old, new)).job.pipeline["numbers"]


def _mistakes(folder: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        _load(folder, text, environment)
    found: list[str] = caught.value.problems
    assert str(caught.value) == "\n".join(found)
    assert all(problem.startswith(f"{folder}/job.toml: ") for problem in found)
    return [problem.removeprefix(f"{folder}/job.toml: ").replace(str(folder), "FOLDER") for problem in found]


# -------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake["name"] for mistake in MISTAKES])
def test_mistake_is_told_with_its_key_and_what_helps(tmp_path: Path, mistake: dict[str, Any]) -> None:
    assert _mistakes(tmp_path, mistake["file"]) == mistake["told"]


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    text = START + NUMBERS.replace("table =", "tabel =").replace('"rate"', '"rat"').replace(
        "checkpoint =", "chekpoint ="
    )

    assert _mistakes(tmp_path, text + "[sprak]\n") == [
        f"pipeline.numbers.checkpoint is missing: {Pipeline.model_fields['checkpoint'].description}",
        "pipeline.numbers.input.kind is 'rat': did you mean 'rate'?",
        "pipeline.numbers.sink.tabel: there is no key 'tabel': did you mean 'table'?",
        "pipeline.numbers.sink: table is missing: name where rows go, or give a route",
        "pipeline.numbers.chekpoint: there is no key 'chekpoint': did you mean 'checkpoint'?",
        "there is no key 'sprak': did you mean 'spark'?",
    ]


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")

    for name, told in (("no.toml", "No such file"), ("", "Is a directory"), ("latin.toml", "no text in UTF-8")):
        with pytest.raises(InvalidInput, match=told) as caught:
            load_job(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_schema_files_are_read_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"type": "struct"}')
    (tmp_path / "syntax.json").write_text("{,}")
    (tmp_path / "types.ddl").write_text("id bigint,\nat datum")
    files = [tmp_path / name for name in ("broken.json", "syntax.json", "types.ddl")]

    told = [
        _mistakes(
            tmp_path, START + NUMBERS.replace('"rate"', f'"files", path = "x", format = "csv", schema_file = "{file}"')
        )
        for file in files
    ]

    begin = "pipeline.numbers.input.schema_file is 'FOLDER/"
    assert told == [
        [f"{begin}broken.json', which holds no schema: it is JSON, but not what Spark's DataFrame.schema.json() gives"],
        [f"{begin}syntax.json', which holds no schema: line 1, column 2: {EXPECTED}"],
        [f"{begin}types.ddl', which holds no schema: column 'at' has the unknown type 'datum': did you mean 'date'?"],
    ]


# -------------------------------------------------------------------------------------------- what a file says


def test_paths_begin_at_the_folder_of_the_file_and_urls_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.ddl").write_text("id bigint")
    source = '{ kind = "files", path = "s3a://in/orders", format = "json", schema_file = "orders.ddl" }'
    (tmp_path / "jobs" / "job.toml").write_text(
        START + 'data_path = "../data/"\n[spark]\njars = "jars"\n' + NUMBERS.replace('{ kind = "rate" }', source)
    )
    monkeypatch.chdir(tmp_path)

    job = load_job(Path("jobs/job.toml"), {}).job

    pipeline = job.pipeline["numbers"]
    assert isinstance(pipeline.input, FilesInput)
    assert job.catalog.url == f"sqlite:///{tmp_path}/jobs/lake.sqlite"
    assert job.catalog.data_path == f"{tmp_path}/data/"
    assert job.spark.jars == f"{tmp_path}/jobs/jars"
    assert pipeline.checkpoint == f"{tmp_path}/jobs/checkpoints/numbers"
    assert pipeline.input.path == "s3a://in/orders"
    assert pipeline.input.columns == StructType([StructField("id", LongType())])


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ('"1 second"', TriggerSetting(timedelta(seconds=1))),
        ('"500ms"', TriggerSetting(timedelta(milliseconds=500))),
        ("2", TriggerSetting(timedelta(seconds=2))),
        ('"Available  now"', TriggerSetting(available_now=True)),
        ('"as fast as possible"', TriggerSetting()),
    ],
)
def test_trigger(tmp_path: Path, text: str, trigger: TriggerSetting) -> None:
    assert _pipeline(tmp_path, "input =", f"trigger = {text}\ninput =").trigger == trigger


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ('{ rows = 100_000, bytes = "64MB", age = "5m" }', FlushPolicy(rows=100_000, bytes="64MB", age="5m")),
        ("{ rows = 7, bytes = false, age = false }", FlushPolicy(rows=7, bytes=None, age=None)),
        ("false", None),
    ],
)
def test_flush(tmp_path: Path, text: str, policy: FlushPolicy | None) -> None:
    _pipeline(tmp_path, 'main.numbers"', f'main.numbers", flush = {text}')

    job = load_job(tmp_path / "job.toml", {}).job
    sink = DuckLakeSink(**job.sink_arguments("numbers"))

    assert sink.options.flush == policy


def test_arguments_of_the_sink_come_from_the_whole_file(tmp_path: Path) -> None:
    route = "sink = { route = \"concat('main.', value % 3)\", merge_schema = true }"
    text = (
        START
        + 'data_path = "data"\noverride_data_path = true\ntimeout = "30s"\n'
        + NUMBERS.replace('sink = { table = "main.numbers" }', route)
    )

    job = _load(tmp_path, text).job
    options = DuckLakeSink(**job.sink_arguments("numbers")).options

    assert (options.stream, options.merge_schema, options.catalog_timeout) == ("numbers", True, timedelta(seconds=30))
    assert (options.catalog, options.data_path) == (f"sqlite:///{tmp_path}/lake.sqlite", f"{tmp_path}/data")
    assert options.override_data_path
    assert callable(options.route)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('"latest"', "latest"),
        ("{ orders = { 0 = 23, 1 = -2 } }", {"orders": {"0": 23, "1": -2}}),
        ('\'{"orders": {"0": 23}}\'', {"orders": {"0": 23}}),
    ],
)
def test_starting_offsets_are_what_the_connector_takes(tmp_path: Path, text: str, offsets: object) -> None:
    keys = f'"kafka", servers = "x:1", topics = "orders", format = "raw", starting_offsets = {text}'

    found = _pipeline(tmp_path, '"rate"', keys).input

    assert isinstance(found, KafkaInput)
    assert found.topics == ("orders",)
    assert (found.starting_offsets if isinstance(offsets, str) else json.loads(found.starting_offsets)) == offsets


# -------------------------------------------------------------------------------------------- said once


def test_every_argument_of_the_sink_is_a_key_or_comes_from_elsewhere() -> None:
    own = {"keys_by_topic"}  # a sink knows no topics
    assert set(SinkSettings.model_fields) - own | set(FROM_ELSEWHERE) == set(SinkOptions.model_fields)


def test_every_option_of_the_source_that_streams_have_is_a_key() -> None:
    options = {name for name, field in SourceOptions.model_fields.items() if field.alias not in FOR_TABLES_ONLY}

    assert set(DuckLakeInput.model_fields) == options | {"kind"}


def test_a_new_argument_is_a_key_by_itself() -> None:
    class More(SinkOptions):
        """A sink that can do more."""

        quick: Flag = setting("whether", default=False)

    made = derived("Made", More, base=SinkSettings, leave_out=FROM_ELSEWHERE)

    assert made.parse({"table": "t", "quick": True}).quick is True
    with pytest.raises(InvalidInput, match="quick is 'yes', but must be True or False"):
        made.parse({"table": "t", "quick": "yes"})


# ---- metrics, from the command line


def test_metrics_are_served_where_the_command_line_says(tmp_path: Path) -> None:
    loaded = _load(tmp_path, START + NUMBERS + "[metrics]\nport = 1\nmax_tables = 7\n")

    metrics = loaded.with_metrics_at("0.0.0.0:9464").job.metrics

    assert metrics is not None
    assert (metrics.host, metrics.port, metrics.max_tables) == ("0.0.0.0", 9464, 7)  # noqa: S104 # a text
    assert loaded.with_metrics_at(None) is loaded


def test_metrics_need_no_table_in_the_file_where_the_command_line_asks_for_them(tmp_path: Path) -> None:
    metrics = _load(tmp_path, START + NUMBERS).with_metrics_at("[::]:80").job.metrics

    assert metrics is not None
    assert (metrics.host, metrics.port) == ("::", 80)


@pytest.mark.parametrize("place", ["9464", "host:", ":9464", "host:99999", "host:x"])
def test_a_place_of_metrics_is_a_host_and_a_port(tmp_path: Path, place: str) -> None:
    with pytest.raises(InvalidInput, match=f"metrics cannot be served at '{place}': write host:port"):
        _load(tmp_path, START + NUMBERS).with_metrics_at(place)
