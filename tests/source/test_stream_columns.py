"""What a stream of changes does when the columns of its table change, or a version of Spark tells it less."""

from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core.errors import InvalidInput, OffsetMismatch, RowsChanged, SchemaChanged
from tests.fixtures.pulls import FEED, Pull, Table

# ---------------------------------------------------------------------------------- columns that change


def test_added_column_stops_the_stream_and_is_there_after_a_restart(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED, startingVersion="earliest")
    table.add(2)
    table.lake.add_column("t", "z", "int32", 7)
    table.lake.append("t", pa.table({"i": [3], "s": ["a"], "z": pa.array([8], pa.int32())}))

    rows = pull.step()

    assert rows is not None
    assert sorted(rows.column("i").to_pylist()) == [1, 2]
    with pytest.raises(SchemaChanged, match=r"changed in snapshot 4: column 'z' was added.*restart the query to go on"):
        pull.step()
    restarted = table.pull(pull.offset, **FEED, startingVersion="earliest")
    assert restarted.all().select(["i", "z"]).to_pylist() == [{"i": 3, "z": 8}]


@pytest.mark.parametrize("is_running", [True, False])
def test_renamed_column_needs_a_tracking_location(table: Table, tmp_path: Path, *, is_running: bool) -> None:
    table.add(1)
    pull = table.pull(**FEED, startingVersion="earliest")
    pull.all()
    table.add(2)
    table.lake.rename_column("t", "s", "text")
    table.lake.append("t", pa.table({"i": [3], "text": ["b"]}))
    offset = pull.offset
    if is_running:
        assert pull.step() is not None
        with pytest.raises(
            SchemaChanged, match=r"'s' was renamed to 'text'.*schemaTrackingLocation.*startingVersion=4"
        ):
            pull.step()
        offset = pull.offset
    with pytest.raises(SchemaChanged, match=r"'s' was renamed to 'text'.*schemaTrackingLocation"):
        table.pull(offset, **FEED).step()

    tracked = {"schemaTrackingLocation": f"{tmp_path}/columns", "startingVersion": str(offset["snapshot_id"] + 1)}
    found = []
    if not is_running:
        old = table.pull(offset, **FEED, **tracked)
        found += old.step().select(["i", "s"]).to_pylist()  # type: ignore[union-attr] # there is one
        offset = old.offset
        with pytest.raises(SchemaChanged, match="they are recorded in"):
            old.step()
    found += table.pull(offset, **FEED, **tracked).all().select(["i", "text"]).to_pylist()

    assert found == [*([] if is_running else [{"i": 2, "s": "a"}]), {"i": 3, "text": "b"}]


def test_dropped_column_that_is_not_read_does_not_matter(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED, startingVersion="earliest", columns="i")
    pull.all()
    table.lake.drop_column("t", "s")
    table.lake.append("t", pa.table({"i": [2]}))

    assert pull.all().column("i").to_pylist() == [2]


def test_renamed_table_is_followed(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()
    table.lake.rename_table("t", "u")
    table.lake.append("u", pa.table({"i": [2], "s": ["b"]}))

    assert pull.all().column("i").to_pylist() == [2]


@pytest.mark.parametrize("options", [{}, {"endingVersion": "100"}, {"schemaTrackingLocation": "columns"}])
def test_change_of_columns_is_not_passed_over_when_nothing_else_happens(
    table: Table, tmp_path: Path, options: dict[str, str]
) -> None:
    if "schemaTrackingLocation" in options:
        options = {"schemaTrackingLocation": f"{tmp_path}/columns"}
    pull = table.pull(**FEED, startingVersion="latest", **options)
    table.lake.add_column("t", "n", "int64")

    table.clock.advance(minutes=5)
    with pytest.raises(SchemaChanged, match="column 'n' was added"):
        pull.step()
    table.lake.append("t", pa.table({"i": [2], "s": ["a"], "n": [42]}))

    assert table.pull(pull.offset, **FEED, **options).all().column("n").to_pylist() == [42]


def test_history_with_renamed_columns_is_read_with_the_newest_names(table: Table) -> None:
    table.add(1)
    table.lake.rename_column("t", "s", "text")
    table.lake.append("t", pa.table({"i": [2], "text": ["b"]}))
    pull = table.pull(**FEED, startingVersion="earliest", maxVersionsPerTrigger="1")

    first = pull.step()
    rest = table.pull(pull.offset, **FEED, startingVersion="earliest").all()

    assert first is not None
    assert first.select(["i", "text"]).to_pylist() == [{"i": 1, "text": "a"}]
    assert rest.select(["i", "text"]).to_pylist() == [{"i": 2, "text": "b"}]


def test_column_with_a_name_of_the_feed_is_read_by_a_stream_of_inserts_only(table: Table) -> None:
    table.lake.create_table("silver", {"i": "int64", "_CHANGE_TYPE": "varchar"})
    table.lake.append("silver", pa.table({"i": [1], "_CHANGE_TYPE": ["x"]}))

    rows = table.pull(table="silver", startingVersion="earliest").all()

    assert rows.to_pylist() == [{"i": 1, "_CHANGE_TYPE": "x"}]
    with pytest.raises(InvalidInput, match="'_CHANGE_TYPE' of the table has the name of a column of the change feed"):
        table.pull(table="silver", **FEED)


# ------------------------------------------------------------------------ Spark before 4.2, which tells no start


class OldPull:
    """A query of Spark 4.1 after a restart: it asks for the end without telling the start."""

    def __init__(self, pull: Pull) -> None:
        self.pull = pull

    def step(self) -> pa.Table | None:
        end = self.pull.reader.latestOffset()
        if end == self.pull.offset:
            return None
        rows = self.pull.read(self.pull.offset, end)
        self.pull.offset = end
        return rows


def test_old_spark_stops_at_changes_and_at_other_columns(table: Table) -> None:
    table.add(1, 2)
    offset = table.pull().all_and_offset()
    table.lake.update("t", {"s": "b"}, "i = 1")
    with pytest.raises(RowsChanged):
        OldPull(table.pull(offset)).step()

    old = OldPull(table.pull(offset, **FEED))
    assert old.step() is not None
    assert old.step() is None
    table.lake.add_column("t", "n", "int64")
    with pytest.raises(SchemaChanged):
        old.step()


def test_old_spark_goes_on_after_a_change_of_columns_that_it_tracks(table: Table, tmp_path: Path) -> None:
    tracked = {"schemaTrackingLocation": f"{tmp_path}/columns"}
    table.add(1)
    offset = table.pull(**FEED, **tracked).all_and_offset()
    table.lake.rename_column("t", "s", "text")
    table.lake.append("t", pa.table({"i": [2], "text": ["b"]}))

    idle = table.pull(offset, **FEED, **tracked)
    assert OldPull(idle).step() is None
    idle.close()
    rows = OldPull(table.pull(offset, **FEED, **tracked)).step()

    assert rows is not None
    assert rows.select(["i", "text"]).to_pylist() == [{"i": 2, "text": "b"}]


def test_reader_never_goes_back(table: Table) -> None:
    for number in (1, 2, 3):
        table.add(number)
    offset = table.pull(**FEED, startingVersion="2").all_and_offset()

    with pytest.raises(OffsetMismatch, match="back to 3: that was read already"):
        OldPull(table.pull(offset, **FEED, endingVersion="3")).step()
