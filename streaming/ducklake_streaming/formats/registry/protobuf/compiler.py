"""Compiles the text of a Protobuf schema. Runs on driver and executors, once for each schema in a process.

The compiler runs as a process of its own: its errors come as text, and a schema cannot take the worker down.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.registry.errors import UnusableSchema

SCHEMA_FILE = "registered_schema.proto"
_TIMEOUT_SECONDS = 60.0


def compile_schema(text: str, references: Sequence[tuple[str, str]]) -> bytes:
    """Return the descriptors of a schema and of all that it imports. Raises UnusableSchema."""
    with TemporaryDirectory() as folder:
        for name, content in [*references, (SCHEMA_FILE, text)]:
            _write(Path(folder), name, content)
        _run(folder)
        return (Path(folder) / "descriptors").read_bytes()


def _write(folder: Path, name: str, content: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UnusableSchema(f"it refers to '{name}', which is no name of a file to import")
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(content)


def _run(folder: str) -> None:
    arguments = [f"-I{folder}", f"-I{_bundled()}", "--include_imports", f"--descriptor_set_out={folder}/descriptors"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments, SCHEMA_FILE]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)  # noqa: S603 # a fixed list
    except subprocess.TimeoutExpired as error:
        raise UnusableSchema(f"it does not compile within {_TIMEOUT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise UnusableSchema(f"it does not compile: {'; '.join(done.stderr.strip().splitlines())}")


def _bundled() -> Path:
    """Return where the well-known types are, such as google/protobuf/timestamp.proto."""
    found = find_spec("grpc_tools")
    if found is None or found.origin is None:
        raise InvalidInput(
            "Protobuf's compiler is not installed where this runs: pip install 'ducklake-streaming[protobuf]'"
        )
    return Path(found.origin).parent / "_proto"
