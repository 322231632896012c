"""On which file system a SQLite catalog is, as Linux tells it."""

from pathlib import Path

import pytest

from ducklake_core.catalog.dbapi import file_system
from ducklake_core.catalog.dbapi.file_system import find_file_system, warn_of_network

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt/share rw shared:2 - nfs4 server:/export rw
31 30 0:27 / /mnt/share/my\\040disk rw shared:3 master:1 - ext4 /dev/vdb rw
32 22 0:28 / /mnt/remote rw - fuse.sshfs me@server:/ rw
33 22 0:29 / /media/usb rw - fuseblk /dev/sdb1 rw
34 22 0:30 / /twice rw - ext4 /dev/vdc rw
35 22 0:31 / /twice rw - cifs //server/share rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("file", "kind", "is_told"),
    [
        ("/data/lake.sqlite", "ext4", False),
        ("/mnt/share/lake.sqlite", "nfs4", True),
        ("/mnt/shared.sqlite", "ext4", False),
        ("/mnt/share/my disk/lake.sqlite", "ext4", False),
        ("/mnt/remote/a/lake.sqlite", "fuse.sshfs", True),
        ("/media/usb/lake.sqlite", "fuseblk", False),
        ("/twice/lake.sqlite", "cifs", True),
    ],
)
def test_file_on_another_machine_is_told_once(
    mounts: Path,
    file: str,
    kind: str,
    is_told: bool,  # noqa: FBT001 # a column of the table above
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(file_system, "MOUNTS", mounts)

    for _ in range(2):
        warn_of_network(Path(file))

    assert find_file_system(Path(file), mounts) == kind
    told = [record.getMessage() for record in caplog.records]
    assert told == ([f"catalog_on_network path={file} file_system={kind}"] if is_told else [])


def test_nothing_is_found_where_nobody_tells(tmp_path: Path) -> None:
    assert find_file_system(Path("/data/lake.sqlite"), tmp_path / "none") is None
