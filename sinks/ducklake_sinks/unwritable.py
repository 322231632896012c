"""Whether a job of Spark failed because of the lake's storage, which its own error tells in a hundred lines of Java.

Runs on the driver.
"""

from __future__ import annotations

import re

from ducklake_core.errors import UnwritableFile
from ducklake_core.files.storage import Storage, unwritable_root

# By a Python task of ours, which knows; by Hadoop, where a tiny file may still find room.
_OURS = re.compile(r"UnwritableFile: (.+)")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|Mkdirs failed to create \S+")


def refuse_unwritable(storage: Storage, error: Exception) -> None:
    """Raise UnwritableFile from a failed job's error if that is the reason; else return."""
    text = str(error)
    ours, full = _OURS.search(text), _FULL.search(text)
    if ours is not None:
        raise UnwritableFile(ours.group(1), path=storage.root) from error
    if full is not None:
        raise unwritable_root(storage.root, full.group()) from error
    try:
        storage.check_writable()
    except UnwritableFile as found:
        raise found from error
