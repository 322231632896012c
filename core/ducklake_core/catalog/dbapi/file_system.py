"""Whether a catalog's file is on a file system of another machine, where SQLite's locks cannot be trusted.

https://www.sqlite.org/faq.html#q5. Linux alone tells; elsewhere nothing is found.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ducklake_core.file_events import CatalogOnNetwork
from ducklake_core.observe import LOG_RECORDER

MOUNTS = Path("/proc/self/mountinfo")
# `fuseblk`, a local disk, is none of them.
_REMOTE = re.compile(r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|virtiofs|fuse(\..+)?")


@cache
def warn_of_network(file: Path) -> None:
    """Say it, once, when a catalog's file is on a file system of another machine."""
    kind = find_file_system(file, MOUNTS)
    if kind is not None and _REMOTE.fullmatch(kind):
        LOG_RECORDER.record(CatalogOnNetwork(str(file), kind))


def find_file_system(file: Path, mounts: Path) -> str | None:
    """Return the kind of the file system that a file is on, or will be; None where nobody tells."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = [_mount(line) for line in lines]
    above = [(point, kind) for point, kind in found if file.is_relative_to(point)]
    # The last one that was mounted at the deepest place hides the others.
    return max(enumerate(above), key=lambda one: (len(one[1][0].parts), one[0]))[1][1] if above else None


def _mount(line: str) -> tuple[Path, str]:
    """Return where and of which kind a mount is: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html."""
    place, _, rest = line.partition(" - ")
    point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place.split()[4])
    return Path(point), rest.split()[0]
