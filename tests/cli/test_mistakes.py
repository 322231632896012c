"""What a user gets wrong: one line that says what helps, and a code."""

import socket
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main

SECRET = "s3cret"  # noqa: S105 # in an address that leads nowhere


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tables"], "--catalog or DUCKLAKE_CATALOG"),
        (["tables", "--catalog", "lake.sqlite"], "neither a URL nor an ATTACH string"),
        (["tables", "--catalog", "sqlite:///nowhere.sqlite"], "there is no lake at"),
        (["tables", "--catalog", "mysql://root@db/lake"], "mysql"),
        (["tables", "--catalog", "{lake}", "--timeout", "soon"], "catalog_timeout is 'soon'"),
        (["tables", "--catalog", "{lake}", "--metadata-schema", "x"], "PostgreSQL catalogs only"),
        (["read", "--catalog", "{lake}"], "Missing argument 'table'"),
        (["read", "t", "--catalog", "{lake}", "--where", "x = 1"], "no column 'x'"),
        (["read", "t", "--catalog", "{lake}", "--columns", "i,j"], "'j'"),
        (["read", "t", "--catalog", "{lake}", "--at", "tomorrow"], "neither a snapshot id nor a time"),
        (["read", "t", "--catalog", "{lake}", "--at", "99"], "there is no snapshot at '99'"),
        (["read", "tt", "--catalog", "{lake}"], "did you mean 'main.t'?"),
        (["read", "t", "--catalog", "{lake}", "--limit", "-1"], "--limit"),
        (["read", "t", "--catalog", "{lake}", "--format", "xml"], "--format"),
        (["changes", "t", "--catalog", "{lake}", "--follow", "--end", "1"], "--follow has no --end"),
        (["snapshots", "--catalog", "{lake}", "--since", "3"], "--since"),
        (["snapshot", "--catalog", "{lake}"], "Did you mean 'snapshots'"),
        (["status", "--catalog", "{lake}", "--small-file", "few"], "--small-file"),
        (["status", "--job", "nowhere.toml"], "nowhere.toml"),
        (["streams", "--catalog", "{lake}", "forget", "s"], "write --catalog after 'forget'"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_code_two(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("DUCKLAKE_CATALOG", raising=False)
    monkeypatch.chdir(tmp_path)
    with Lake.create("sqlite:///lake.sqlite", data_path="data/") as lake:
        lake.create_table("t", {"i": "int64"})

    code = main([argument.replace("{lake}", "sqlite:///lake.sqlite") for argument in arguments])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("ducklake-stream: ")
    assert told in err
    assert err.count("\n") == 1


def test_a_catalog_that_is_away_is_waited_for_in_words_and_not_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    code = main(["tables", "--catalog", f"postgresql://me:{SECRET}@127.0.0.1:{port}/lake", "--timeout", "1s"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith("catalog_unavailable ")
    assert "gave up after" in err.splitlines()[-1]
    assert SECRET not in err


def test_help_has_an_example_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    commands = [line.split()[1] for line in shown.splitlines() if line.startswith("│ ") and line[2:3].isalpha()]
    assert {"status", "tables", "read", "changes", "flush", "snapshots", "streams", "consumers"} <= set(commands)
    for words in ([one] for one in commands):
        groups = {"streams": ["forget"], "consumers": ["forget"], "dead-letters": ["list"], "maintain": ["all"]}
        sub = {**groups, "import": ["delta"]}.get(words[0], [])
        assert main([*words, *sub, "--help"]) == 0
        assert "ducklake-stream " + words[0] in capsys.readouterr().out.partition("Example")[2], words
