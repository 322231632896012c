"""What people say of an object store, what the environment says else, and what is told of one that refuses."""

import pickle

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.files.filesystems import open_filesystem
from ducklake_core.files.refused_storage import told_reason
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.files.storage_retries import StoragePatience, is_passing
from ducklake_core.observe import Event
from ducklake_core.storage_settings import StorageSettings, storage_options
from ducklake_sources.options import parse_options

SAID = {"endpoint": "https://s3.example.com", "region": "eu-1", "path_style": True, "sse": "aws:kms", "kms_key": "k"}


def test_what_is_said_wins_over_the_environment() -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://other",
        "AWS_DEFAULT_REGION": "us-1",
        "DUCKLAKE_S3_REQUESTER_PAYS": "true",
    }

    found = StorageOptions(endpoint="https://mine").with_environment(environment)

    assert found == StorageOptions(endpoint="https://mine", region="us-1", requester_pays=True)


def test_endpoint_of_s3_alone_comes_before_that_of_all_services() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}

    assert StorageOptions().with_environment(environment).endpoint == "http://s3"


def test_flag_in_the_environment_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="DUCKLAKE_S3_PATH_STYLE is neither 'true' nor 'false'"):
        StorageOptions().with_environment({"DUCKLAKE_S3_PATH_STYLE": "perhaps"})


@pytest.mark.parametrize("name", ["access_key", "secret_key", "aws_session_token", "profile"])
def test_credentials_are_no_setting(name: str) -> None:
    with pytest.raises(InvalidInput, match="credentials come from the environment, a profile or a role") as error:
        storage_options({name: "pw-secret"})

    assert "pw-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"endpoint": "s3.example.com"}, "endpoint .* a URL such as"),
        ({"endpoint": "https://key:pw-secret@s3.example.com"}, "without credentials"),
        ({"sse": "rot13"}, "one of AES256"),
        ({"kms_key": "k"}, "kms_key needs sse"),
    ],
)
def test_mistakes_are_told_without_secrets(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as error:
        storage_options(given)

    assert "pw-secret" not in str(error.value)


def test_settings_go_through_an_option_of_spark_unchanged() -> None:
    settings = StorageSettings.parse(SAID)

    options = parse_options({"catalog": "sqlite:///x", "table": "t", "storage": settings.text})

    assert options.storage == settings
    assert pickle.loads(pickle.dumps(settings.options)) == settings.options  # noqa: S301 # executors get it so


def test_option_of_spark_that_has_no_settings_is_refused() -> None:
    for given, told in (
        ("https://s3.example.com", "storage .* settings such as 'endpoint="),
        ("pw-secret, endpoint=https://s3.example.com", "storage .* settings such as 'endpoint="),
        ("secret_access_key=pw-secret, endpoint", "there is no setting 'secret_access_key'"),
    ):
        with pytest.raises(InvalidInput, match=told) as error:
            parse_options({"catalog": "sqlite:///x", "table": "t", "storage": given})
        assert "pw-secret" not in str(error.value)


def test_encryption_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.filesystem", is_missing)

    with pytest.raises(InvalidInput, match=r"need the package s3fs: pip install 'ducklake-streaming\[s3fs\]'"):
        open_filesystem("s3", "bucket-without-a-package", StorageOptions(sse="AES256"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("AWS Error NO_SUCH_BUCKET during PutObject", "there is no bucket 'b'"),
        ("AWS Error ACCESS_DENIED during PutObject", "may not write to bucket 'b': it needs s3:PutObject"),
        ("AWS Error INVALID_ACCESS_KEY_ID during PutObject", "bucket 'b' does not know the credentials"),
        ("AWS Error NETWORK_CONNECTION during PutObject", "nobody answers for bucket 'b'"),
        ("something else", "something else"),
    ],
)
def test_store_that_refuses_is_told_in_words_that_help(error: str, told: str) -> None:
    assert told_reason("s3://me:pw@b/lake/", OSError(error)).startswith(told) or told in told_reason(
        "s3://b/l", OSError(error)
    )


def test_local_disk_that_refuses_is_told_as_it_says() -> None:
    assert told_reason("/lake/", OSError("Forbidden")) == "Forbidden"


class Kept:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)


def test_busy_store_is_asked_again_with_longer_pauses_and_each_is_told() -> None:
    pauses: list[float] = []
    kept = Kept()
    answers = iter([OSError("AWS Error SLOW_DOWN"), ConnectionResetError(), None])

    def ask() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "there"

    assert StoragePatience(sleep=pauses.append, recorder=kept).run(ask, "s3://key:pw@b/f") == "there"
    assert [event.facts()["attempt"] for event in kept.events] == [1, 2]
    assert [event.facts()["path"] for event in kept.events] == ["s3://***@b/f"] * 2
    assert len(pauses) == 2


def test_store_that_stays_busy_is_given_up_after_eight_tries() -> None:
    tries: list[int] = []

    def ask() -> None:
        tries.append(1)
        raise OSError("AWS Error SLOW_DOWN")

    with pytest.raises(OSError, match="SLOW_DOWN"):
        StoragePatience(sleep=lambda _: None, recorder=Kept()).run(ask, "s3://b/f")
    assert len(tries) == 8


@pytest.mark.parametrize("error", [FileNotFoundError(), OSError("AWS Error ACCESS_DENIED"), ValueError("SLOW_DOWN")])
def test_what_will_not_pass_is_not_tried_again(error: Exception) -> None:
    assert not is_passing(error)
