"""What people say of the object store that holds a lake's files: each setting once, with its meaning. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator

from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.settings import OptionalText, Settings, checked, flag, optional, setting, text

OptionalFlag: TypeAlias = Annotated[bool | None, *checked(optional(flag), {"type": "boolean"})]
_SSE = ("AES256", "aws:kms", "aws:kms:dsse")


def _endpoint(value: object) -> str:
    if not text(value).startswith(("http://", "https://")) or "@" in str(value):
        raise ValueError("a URL such as 'https://s3.example.com', without credentials")
    return str(value)


def _sse(value: object) -> str:
    if value not in _SSE:
        raise ValueError(f"one of {', '.join(_SSE)}")
    return str(value)


class StorageSettings(Settings):
    """How the S3 store of a lake's files is reached. None: as the environment says. It never holds credentials."""

    purpose: ClassVar[str] = "a lake's storage cannot be reached"

    endpoint: Annotated[str | None, *checked(optional(_endpoint), {"type": "string"})] = setting(
        "the URL of an S3 server that is not Amazon's, such as `https://s3.example.com`; else the variable "
        "`AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`",
        default=None,
    )
    region: OptionalText = setting(
        "the bucket's region; else `AWS_REGION` or `AWS_DEFAULT_REGION`; else Amazon is asked", default=None
    )
    path_style: OptionalFlag = setting(
        "whether the bucket's name is in the path and not before the host; else `DUCKLAKE_S3_PATH_STYLE`; else only "
        "with an endpoint",
        default=None,
    )
    ca_file: OptionalText = setting(
        "a PEM file of the authorities that vouch for the endpoint, on every machine; else `AWS_CA_BUNDLE`",
        default=None,
    )
    sse: Annotated[str | None, *checked(optional(_sse), {"enum": [*_SSE]})] = setting(
        "how the store encrypts new files: `AES256`, `aws:kms` or `aws:kms:dsse`; else `DUCKLAKE_S3_SSE`; else as the "
        "bucket says. Needs s3fs",
        default=None,
    )
    kms_key: OptionalText = setting(
        "the id of the key for `aws:kms`; else `DUCKLAKE_S3_KMS_KEY`; else the bucket's. Needs s3fs", default=None
    )
    requester_pays: OptionalFlag = setting(
        "whether you pay for requests to a bucket of somebody else; else `DUCKLAKE_S3_REQUESTER_PAYS`. Needs s3fs",
        default=None,
    )

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(**{name: getattr(self, name) for name in type(self).model_fields})

    @property
    def text(self) -> str:
        """What was said, as Spark's options have it."""
        said = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return ",".join(
            f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in said.items()
        )

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if right.get("kms_key") and not str(right.get("sse") or "").startswith("aws:kms"):
            yield "kms_key needs sse = 'aws:kms'"

    @classmethod
    def unknown(cls, name: str) -> str:
        if any(word in name.lower() for word in ("key", "secret", "token", "password", "profile")):
            return f"there is no setting '{name}': credentials come from the environment, a profile or a role alone"
        return super().unknown(name)


def storage_options(given: Mapping[str, object] | StorageSettings | None) -> StorageOptions:
    """Return what was said of a lake's storage; raise InvalidInput that lists every mistake."""
    settings = given if isinstance(given, StorageSettings) else StorageSettings.parse(given or {})
    return settings.options


def _storage(value: object) -> object:
    if value is not None and not isinstance(value, (StorageSettings, Mapping)):
        raise ValueError('a mapping such as {"endpoint": "https://s3.example.com"}')
    return value


OptionalStorage: TypeAlias = Annotated[StorageSettings | None, BeforeValidator(_storage)]
