"""How an object store is reached, as a value: what people may say of it, and what the environment says else.

Pure but for the environment; travels to executors with the storage. It holds no credentials: each process finds its own
by the standard chain of the store's client (environment, profile, web identity, instance).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ducklake_core.errors import InvalidInput

# Of AWS's own tools where they have one.
_VARIABLES = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "path_style": ("DUCKLAKE_S3_PATH_STYLE",),
    "ca_file": ("AWS_CA_BUNDLE",),
    "sse": ("DUCKLAKE_S3_SSE",),
    "kms_key": ("DUCKLAKE_S3_KMS_KEY",),
    "requester_pays": ("DUCKLAKE_S3_REQUESTER_PAYS",),
}
_OF_FLAGS = ("path_style", "requester_pays")
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """What was said of an S3 store; None: not said. `storage_settings` says what each means."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    ca_file: str | None = None
    sse: str | None = None
    kms_key: str | None = None
    requester_pays: bool | None = None

    def with_environment(self, environment: Mapping[str, str] = os.environ) -> StorageOptions:
        """Return the options with what variables say of the rest; raise InvalidInput for a flag that is none."""
        found: dict[str, str | bool] = {}
        for option, names in _VARIABLES.items():
            name = next((name for name in names if environment.get(name)), None)
            if name is not None and getattr(self, option) is None:
                found[option] = _flag(name, environment) if option in _OF_FLAGS else environment[name]
        return replace(self, **found)  # type: ignore[arg-type] # flags are flags, texts are texts

    @property
    def needs_s3fs(self) -> bool:
        """Tell whether something is asked for that pyarrow's client cannot: headers of its own on every request."""
        return bool(self.sse or self.kms_key or self.requester_pays)


NO_OPTIONS = StorageOptions()


def _flag(name: str, environment: Mapping[str, str]) -> bool:
    value = _FLAGS.get(environment[name].lower())
    if value is None:
        raise InvalidInput(f"the variable {name} is neither 'true' nor 'false'")
    return value
