"""Files from Maven: each is what its checksum says or is not there, and a failure says what helps."""

import hashlib
import re
from pathlib import Path

import pytest

from ducklake_streaming.demo import maven
from ducklake_streaming.demo.maven import KAFKA_BROKER, KAFKA_CONNECTOR, FetchError, fetch_files, main, read_pins


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a server, which is asked in place of Maven Central; the cache is empty."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MVNW_REPOURL", (tmp_path / "server").as_uri())
    return tmp_path / "server"


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give a set of two files, which a test may change."""
    pinned = {path: hashlib.sha256(path.encode()).hexdigest() for path in ("org/a/1/a-1.jar", "org/b/2/b-2.jar")}
    monkeypatch.setattr(maven, "read_pins", lambda _: pinned)
    return pinned


def test_files_are_fetched_once(server: Path, pins: dict[str, str]) -> None:
    _serve(server, pins)
    told: list[str] = []

    first = fetch_files("set", told.append)
    for path in pins:
        (server / path).unlink()
    second = fetch_files("set", told.append)

    assert [file.read_text() for file in first] == list(pins)
    assert second == first
    assert len(told) == 1


def test_files_are_printed_for_a_shell(server: Path, pins: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _serve(server, pins)

    assert main(["set"]) is None

    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == ["a-1.jar", "b-2.jar"]


def test_a_mirror_of_maven_is_asked(server: Path, pins: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _serve(server, pins)
    monkeypatch.delenv("MVNW_REPOURL")
    settings = Path.home() / ".m2" / "settings.xml"
    settings.parent.mkdir(parents=True)
    mirror = f"<mirror><mirrorOf>*</mirrorOf><url>{server.as_uri()}</url></mirror>"
    namespace = "http://maven.apache.org/SETTINGS/1.2.0"
    settings.write_text(f'<settings xmlns="{namespace}"><mirrors>{mirror}</mirrors></settings>')

    assert [file.read_text() for file in fetch_files("set")] == list(pins)


def test_a_file_with_another_checksum_never_gets_its_name(server: Path, pins: dict[str, str]) -> None:
    _serve(server, pins)
    pins["org/a/1/a-1.jar"] = "0" * 64

    with pytest.raises(FetchError, match=r"a-1\.jar is not the file whose checksum we have"):
        fetch_files("set")

    assert not (maven.cache_folder() / "org/a/1/a-1.jar").exists()


@pytest.mark.usefixtures("server", "pins")
def test_what_cannot_be_fetched_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    said = main(["set"])

    assert said is not None
    assert re.search(r"the files of set cannot be fetched: file://.*\.jar: .*MVNW_REPOURL", said)
    assert "fetching 2 files of set" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "count"), [(KAFKA_BROKER, 93), (KAFKA_CONNECTOR, 4)])
def test_the_package_has_the_checksums_of_its_sets(name: str, count: int) -> None:
    pinned = read_pins(name)

    assert len(pinned) == count
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in pinned.values())


def _serve(server: Path, pins: dict[str, str]) -> None:
    for path in pins:
        (server / path).parent.mkdir(parents=True)
        (server / path).write_text(path)
