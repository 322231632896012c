"""The feed that the options of a read name: its lake, its table, and where it begins and ends. Runs on the driver."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TypeVar

from ducklake_core.errors import InvalidInput, SnapshotsExpired
from ducklake_core.feed.task import FeedMode
from ducklake_core.lake_reader import LakeReader
from ducklake_core.model import SnapshotId, TableVersion
from ducklake_core.observe import LOG_RECORDER, SnapshotsLost
from ducklake_core.references import resolve
from ducklake_sources.option_values import Start
from ducklake_sources.options import SourceOptions

AnyLake = TypeVar("AnyLake", bound=LakeReader)


def log_loss(error: SnapshotsExpired) -> None:
    """Say which changes are gone, where that is accepted."""
    LOG_RECORDER.record(SnapshotsLost(error.table, error.first_lost, error.last_lost))


def open_lake(options: SourceOptions, kind: type[AnyLake]) -> AnyLake:
    """Open the lake that a source reads."""
    return kind.open(
        options.catalog,
        metadata_schema=options.metadata_schema,
        data_path=None if options.data_path is None else resolve(options.data_path),
        override_data_path=options.override_data_path,
        catalog_timeout=options.catalog_timeout,
        storage=options.storage,
    )


class SourceFeed:
    """The feed of one table, as options ask for it. It opens a lake: `close` it."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.lake = open_lake(options, LakeReader)
        with ExitStack() as on_error:
            on_error.callback(self.lake.close)
            self.feed = self.lake.feed(options.table)
            on_error.pop_all()

    def close(self) -> None:
        self.lake.close()

    @property
    def table(self) -> TableVersion:
        """The table as it was when last looked at."""
        return self.feed.table

    @property
    def mode(self) -> FeedMode:
        if not self.options.read_change_feed:
            return FeedMode.INSERTS
        return FeedMode.NET if self.options.net_changes else FeedMode.CHANGES

    @property
    def is_start_fixed(self) -> bool:
        """Tell whether the feed begins at the same snapshot whenever it is asked."""
        symbolic = isinstance(self.options.starting_version, Start)
        return not symbolic and self.options.starting_timestamp is None

    def start(self) -> SnapshotId | None:
        """Return the snapshot after which the feed begins; None when it begins with the table itself."""
        since = self.options.starting_version
        if self.options.starting_timestamp is not None:
            return self.feed.before(self.options.starting_timestamp)
        if since is None:
            return None
        if since is Start.EARLIEST:
            return self.feed.before_earliest()
        head = self.feed.head().snapshot_id
        if since is Start.LATEST:
            return head
        if since > head + 1:
            raise InvalidInput(
                f"startingVersion {since} is not there yet: the newest snapshot is {head}, and a feed may begin at "
                f"{head + 1} at the latest",
                head=head,
                start=since,
            )
        return SnapshotId(since - 1)

    def end(self) -> SnapshotId | None:
        """Return the last snapshot that the feed reads; None when there is none, or at which it never ends."""
        if self.options.ending_timestamp is not None:
            return self.feed.snapshot(self.options.ending_timestamp).snapshot_id
        return self.options.ending_version
