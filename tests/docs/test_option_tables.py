"""Each option is written once, in the code: docs and the sink's signature say the same."""

import inspect

import pytest

from ducklake_core.settings import Settings, shown_default
from ducklake_sinks import DuckLakeSink, FlushPolicy
from ducklake_sinks.options import SinkOptions
from ducklake_sources.options import SourceOptions
from tests.docs.option_tables import written

VALUES = {"catalog": "sqlite:///x.sqlite", "table": "t"}


def test_tables_of_options_and_the_schema_of_jobs_are_those_of_the_code() -> None:
    outdated = [path.name for path, text in written() if not path.exists() or path.read_text() != text]

    assert outdated == [], "run `make docs`"


@pytest.mark.parametrize("kind", [SinkOptions, FlushPolicy, SourceOptions])
def test_defaults_that_are_shown_are_the_real_ones(kind: type[Settings]) -> None:
    required = {name: VALUES[name] for name, field in kind.names().items() if kind.model_fields[field].is_required()}
    shown = {name: shown_default(kind.model_fields[field]) for name, field in kind.names().items()}
    given = {name: text.strip("`'") for name, text in shown.items() if text is not None and text.startswith("`")}

    found = kind.model_validate({**given, **required})  # `parse` would look for contradictions, too

    assert given
    assert found == kind.parse(required)


def test_arguments_of_the_sink_are_its_options_with_their_defaults() -> None:
    arguments = {
        name: argument.default
        for name, argument in inspect.signature(DuckLakeSink).parameters.items()
        if argument.kind is not argument.VAR_KEYWORD and name != "recorder"  # an object of the caller, and no setting
    }
    defaults = SinkOptions.parse({"catalog": "sqlite:///x.sqlite"})
    given = SinkOptions.parse({**arguments, "catalog": "sqlite:///x.sqlite"})

    assert list(arguments) == list(SinkOptions.model_fields)
    assert given == defaults
