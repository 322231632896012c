"""References in job files: looked up, told by their key when missing, and never shown."""

import io
import logging
import pickle
from pathlib import Path

import pytest
from rich.console import Console
from rich.pretty import Pretty

from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText, portable, resolve
from ducklake_sinks import DuckLakeSink
from ducklake_sources.options import parse_options
from ducklake_streaming.jobs.inputs import input_options
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.job_session import spark_settings
from ducklake_streaming.jobs.references import HIDDEN, Redactor

PASSWORD = "p@ss/hunter2"  # noqa: S105 # planted
ENCODED = "p%40ss%2Fhunter2"
FILE = """
[catalog]
url = "postgresql://lake:${env:PASSWORD}@db/lake"
[pipeline.copy]
checkpoint = "checkpoints/${env:FOLDER}"
input = { kind = "ducklake", table = "main.bronze" }
sink = { table = "main.silver" }
[pipeline.orders]
checkpoint = "checkpoints/orders"
[pipeline.orders.input]
kind = "kafka"
servers = "broker:9092"
topics = ["orders"]
format = "avro"
registry = "http://registry"
registry_options = { user = "me", password = "${file:secrets/registry}" }
[pipeline.orders.input.options]
"kafka.sasl.jaas.config" = "X required password=\\"${file:secrets/kafka}\\";"
"kafka.client.id" = "$${env:X}"
[pipeline.orders.sink]
table = "main.orders"
"""
ENVIRONMENT = {"PASSWORD": ENCODED, "FOLDER": "copy"}


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "registry").write_text("registry-hunter\r\n")
    (tmp_path / "secrets" / "kafka").write_text("kafka-hunter\n")
    (tmp_path / "job.toml").write_text(FILE)
    return tmp_path / "job.toml"


def test_values_are_those_that_were_referred_to(job_file: Path) -> None:
    job = load_job(job_file, ENVIRONMENT).job

    kafka = job.pipeline["orders"].input
    assert job.catalog.url == f"postgresql://lake:{ENCODED}@db/lake"
    assert job.pipeline["copy"].checkpoint == f"{job_file.parent}/checkpoints/copy"
    assert input_options(kafka, job)["kafka.sasl.jaas.config"] == 'X required password="kafka-hunter";'
    assert input_options(kafka, job)["kafka.client.id"] == "${env:X}"


def test_nothing_that_is_shown_has_a_value(job_file: Path) -> None:
    loaded = load_job(job_file, ENVIRONMENT)
    sink = DuckLakeSink(**loaded.job.sink_arguments("orders"))
    screen = io.StringIO()
    for shown in (loaded, loaded.job, loaded.job.pipeline, sink.options):
        Console(file=screen, width=500).print(Pretty(shown, max_string=5000))
    texts = f"{loaded!r} {loaded} {loaded.job!r} {loaded.job} {sink!r} {screen.getvalue()} {spark_settings(loaded.job)}"

    assert "hunter" not in texts
    assert "${env:PASSWORD}" in repr(loaded)
    assert "${file:secrets/kafka}" in repr(loaded)


def test_spark_is_told_where_the_password_of_a_lake_is_and_the_source_finds_it(
    job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", ENCODED)
    monkeypatch.setenv("FOLDER", "copy")
    job = load_job(job_file).job

    options = input_options(job.pipeline["copy"].input, job)

    assert options["catalog"] == "postgresql://lake:${env:PASSWORD}@db/lake"
    assert parse_options(options).catalog == job.catalog.url
    assert "hunter" not in repr(parse_options(options))
    assert pickle.loads(pickle.dumps(parse_options(options))) == parse_options(options)  # noqa: S301 # our own


def test_spark_hides_options_that_refer_to_something(job_file: Path) -> None:
    job = load_job(job_file, ENVIRONMENT).job

    assert spark_settings(job)["spark.redaction.regex"].endswith(r"|kafka\.sasl\.jaas\.config")


def test_every_reference_that_is_missing_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(FILE.replace("$${env:X}", "${ENV:X} ${env:Y"))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka").write_bytes(b"\xff")

    with pytest.raises(InvalidInput) as caught:
        load_job(tmp_path / "job.toml", {})

    told = [problem.replace(str(tmp_path), "F").removeprefix("F/job.toml: ") for problem in caught.value.problems]
    options = "pipeline.orders.input.options.kafka"
    registry = "pipeline.orders.input.registry_options.password"
    helps = "write ${env:NAME} or ${file:/path}, and $${ where you mean ${ itself"
    assert told == [
        "catalog.url: there is no environment variable 'PASSWORD'",
        "pipeline.copy.checkpoint: there is no environment variable 'FOLDER'",
        f"{registry}: the file 'F/secrets/registry' cannot be read: No such file or directory",
        f"{options}.sasl.jaas.config: the file 'F/secrets/kafka' is no text in UTF-8",
        f"{options}.client.id: there is no reference '${{ENV:X}}': {helps}",
        f"{options}.client.id: the reference '${{env:Y' has no end: {helps}",
    ]


@pytest.mark.parametrize(
    "key", ['master = "${env:X}"', 'app_name = "${env:X}"', 'settings = { "spark.x" = "${env:X}" }']
)
def test_references_to_what_spark_shows_are_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "job.toml").write_text(
        f'[catalog]\nurl = "sqlite:///x"\n[spark]\n{key}\n[pipeline.n]\ncheckpoint = "c"\n'
        'input = { kind = "rate" }\nsink = { table = "n" }\n'
    )

    with pytest.raises(InvalidInput) as caught:
        load_job(tmp_path / "job.toml", {"X": "hunter2"})

    assert len(caught.value.problems) == 1
    assert "hunter2" not in str(caught.value)
    assert "Spark shows its settings in its UI and its event log" in str(caught.value)
    assert "${env:X}" in str(caught.value)


def test_wrong_value_is_not_shown_where_it_was_referred_to(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        '[catalog]\nurl = "${env:URL}"\n[pipeline.n]\ncheckpoint = "c"\ntrigger = "${env:T}"\n'
        'input = { kind = "${env:T}" }\n'
        'sink = { table = "${env:T}", partition_by = ["${env:T}"], on_bad_row = "${env:T}" }\n'
    )

    with pytest.raises(InvalidInput) as caught:
        load_job(tmp_path / "job.toml", {"URL": "oracle://me:hunter2@db", "T": "hunter2 hunter2(.."})

    assert len(caught.value.problems) == 6
    assert "hunter2" not in str(caught.value)


def test_what_is_too_short_to_be_a_secret_is_not_hidden() -> None:
    redactor = Redactor(["a", "abc", "abcd"])

    assert redactor.redact("abcd abc a") == f"{HIDDEN} abc a"


def test_secrets_are_hidden_in_every_form(job_file: Path) -> None:
    loaded = load_job(job_file, {**ENVIRONMENT, "FOLDER": f"postgresql://me:{ENCODED}@db/x"})
    redactor = loaded.redactor

    shown = redactor.redact(f"{PASSWORD} {ENCODED} kafka-hunter registry-hunter postgresql://me:{ENCODED}@db/x")

    assert "hunter" not in shown


def test_log_records_are_hidden_with_their_tracebacks(job_file: Path) -> None:
    log, stream = logging.getLogger("test_job_references"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(load_job(job_file, ENVIRONMENT).redactor)
    log.addHandler(handler)

    try:
        log.error("cannot use %s", ENCODED)
        try:
            int(PASSWORD)
        except ValueError:
            log.exception("failed with %s", "kafka-hunter")
    finally:
        log.removeHandler(handler)

    assert "hunter" not in stream.getvalue()
    assert "Traceback" in stream.getvalue()
    assert f"cannot use {HIDDEN}" in stream.getvalue()


def test_text_without_references_stays_plain_and_is_portable() -> None:
    assert resolve("a $${env:X}") == "a ${env:X}"
    assert not isinstance(resolve("a $${env:X}"), ReferencedText)
    assert resolve(portable(resolve("a $${env:X}"))) == "a ${env:X}"
    assert resolve("${env:A}-${env:B}", {"A": "1", "B": "2"}) == "1-2"
    assert resolve("${env:A}", {"A": "${env:B}"}) == "${env:B}", "values are not resolved again"


def test_files_are_relative_to_a_folder_and_found_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("line 1\nline 2\n")

    found = resolve("${file:secret}", {}, tmp_path)

    assert found == "line 1\nline 2"
    assert isinstance(found, ReferencedText)
    assert (found.written, found.portable) == ("${file:secret}", f"${{file:{tmp_path}/secret}}")
    assert resolve(found.portable, {}) == found
