"""Each option is written once, in the code: docs and the sink's signature say the same."""

import inspect

from ducklake_sinks import DuckLakeSink
from ducklake_sinks.options import SinkOptions
from tests.docs.option_tables import pages


def test_tables_of_options_are_those_of_the_code() -> None:
    outdated = [path.name for path, text in pages() if path.read_text() != text]

    assert outdated == [], "run `make docs`"


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
