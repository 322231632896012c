"""Credentials that expire: a lake that is open goes on with the new ones, wherever they come from."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ducklake_core import Lake
from tests.fixtures.key_server import KeyServer, run_key_server
from tests.fixtures.s3 import KEY, NEXT_KEY, NEXT_SECRET, SECRET, S3Bucket

IDENTITY = "token-of-the-pod"


@pytest.fixture
def keys(s3: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    """Give a server that hands out keys of the bucket; the environment has none, nor leads anywhere else."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.proxy.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file")
    with run_key_server(KEY, SECRET) as found:
        yield found


def of_container(keys: KeyServer, _: Path) -> dict[str, str]:
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{keys.endpoint}/container"}


def of_machine(keys: KeyServer, _: Path) -> dict[str, str]:
    return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": keys.endpoint, "AWS_EC2_METADATA_DISABLED": "false"}


def of_process(keys: KeyServer, folder: Path) -> dict[str, str]:
    (folder / "config").write_text(f"[profile lake]\ncredential_process = curl -s {keys.endpoint}/container\n")
    return {"AWS_CONFIG_FILE": str(folder / "config"), "AWS_PROFILE": "lake"}


def of_web_identity(keys: KeyServer, folder: Path) -> dict[str, str]:
    (folder / "token").write_text(IDENTITY)
    role = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/lake", "AWS_ROLE_SESSION_NAME": "lake"}
    token = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"), "AWS_ENDPOINT_URL_STS": keys.endpoint}
    return {**role, **token}


@pytest.mark.parametrize(
    ("way", "storage"),
    [
        pytest.param(of_container, {}, id="container"),
        pytest.param(of_process, {}, id="process of a profile"),
        pytest.param(of_container, {"requester_pays": True}, id="container, by s3fs"),
        pytest.param(of_web_identity, {"requester_pays": True}, id="web identity, by s3fs"),
    ],
)
def test_lake_that_is_open_goes_on_with_new_credentials(
    s3: S3Bucket,
    keys: KeyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[KeyServer, Path], dict[str, str]],
    storage: dict[str, object],
) -> None:
    for name, value in way(keys, tmp_path).items():
        monkeypatch.setenv(name, value)
    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", s3.url, storage=storage) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.set_option("data_inlining_row_limit", 0)
        lake.append("t", {"id": [1]})
        before = signers(s3)
        s3.proxy.forget()

        keys.key, keys.secret = NEXT_KEY, NEXT_SECRET
        (tmp_path / "token").write_text(f"next-{IDENTITY}")
        lake.append("t", {"id": [2]})

        assert sorted(lake.table("t").read().column("id").to_pylist()) == [1, 2]
    assert (before, signers(s3)) == ({KEY}, {NEXT_KEY})
    assert keys.identity in (None, f"next-{IDENTITY}")


def test_machine_gives_credentials(
    s3: S3Bucket, keys: KeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in of_machine(keys, tmp_path).items():
        monkeypatch.setenv(name, value)

    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", s3.url) as lake:
        lake.storage.check_writable()

    assert signers(s3) == {KEY}


def signers(s3: S3Bucket) -> set[str]:
    """Return the keys that requests were signed with."""
    said = [request.headers["authorization"] for request in s3.proxy.requests]
    return {text.partition("Credential=")[2].partition("/")[0] for text in said}
