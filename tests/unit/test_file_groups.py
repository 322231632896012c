"""Which files are merged or rewritten together: by partition, columns, size and deletes; and how often a row is."""

from math import log2

import pytest

from ducklake_core.model import DataFile, DataFileId, DeleteFile, DeleteFileId, SnapshotId
from ducklake_core.plan.file_groups import MergeLimits, plan_merge, plan_rewrite

TARGET = 512_000_000


def data_file(
    number: int,
    size: int = 1000,
    *,
    deleted: int = 0,
    inlined: int = 0,
    partition: str | None = None,
    records: int = 100,
) -> DataFile:
    """Return a file that snapshot `number` has added."""
    deletes = DeleteFile(DeleteFileId(10_000 + number), DataFileId(number), "d", "parquet", SnapshotId(number), deleted)
    return DataFile(
        DataFileId(number),
        f"f{number}",
        SnapshotId(number),
        records,
        size,
        100 * number,
        partition_id=None if partition is None else 7,
        partition_values={} if partition is None else {0: partition},
        delete_files=(deletes,) if deleted else (),
        inlined_deletes=tuple(range(inlined)),
    )


def merged(*files: DataFile, versions: tuple[int, ...] = (0,), **limits: int) -> list[list[int]]:
    groups = plan_merge(files, [SnapshotId(v) for v in versions], MergeLimits(**{"target_bytes": TARGET, **limits}))
    return [[file.data_file_id for file in group] for group in groups]


def rewritten(*files: DataFile, threshold: float = 0.95, crowds: bool = False) -> list[list[int]]:
    groups = plan_rewrite(files, [SnapshotId(0)], TARGET, threshold, with_crowds=crowds)
    return [[file.data_file_id for file in group] for group in groups]


def test_all_small_files_are_merged_oldest_first() -> None:
    assert merged(data_file(3), data_file(1, 5000), data_file(2, 40)) == [[1, 2, 3]]


def test_one_file_alone_is_not_merged() -> None:
    assert merged(data_file(1)) == []


def test_files_with_deletes_are_not_merged() -> None:
    assert merged(data_file(1), data_file(2, deleted=1), data_file(3, inlined=1), data_file(4)) == [[1, 4]]


def test_partitions_and_columns_are_merged_apart() -> None:
    files = [data_file(n, partition="ab"[n % 2]) for n in range(8)]
    assert merged(*files, versions=(0, 4)) == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_files_fill_the_target_size() -> None:
    assert merged(*(data_file(n, 300) for n in range(9)), target_bytes=1000) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_full_files_and_those_beyond_the_limits_are_left_alone() -> None:
    files = [data_file(1, 10), data_file(2, 20), data_file(3, 30), data_file(4, 40), data_file(5, 2000)]
    assert merged(*files, min_file_bytes=20, max_file_bytes=40) == [[2, 3]]
    assert merged(*files, target_bytes=2000) == [[1, 2, 3, 4]]


def test_no_more_files_are_made_than_allowed() -> None:
    files = [data_file(n, partition="abc"[n % 3]) for n in range(6)]
    assert len(merged(*files, max_groups=2)) == 2


def test_large_file_waits_until_small_ones_are_worth_it() -> None:
    large = data_file(1, 100_000_000)
    assert merged(large, data_file(2, 1_000_000), data_file(3, 1_000_000)) == [[2, 3]]
    assert merged(large, data_file(2, 30_000_000), data_file(3, 30_000_000)) == [[1, 2, 3]]


def test_large_files_are_merged_with_each_other_beside_small_ones() -> None:
    small = [data_file(n, 1000) for n in (1, 2)]
    large = [data_file(n, 100_000_000) for n in (3, 4)]
    assert merged(*small, *large) == [[1, 2], [3, 4]]


@pytest.mark.parametrize("every", [1, 10, 100])
def test_steady_ingest_writes_each_row_a_logarithmic_number_of_times(every: int) -> None:
    """The curve: files of one unit come one by one, and all that is planned is done after every so many of them."""
    unit = TARGET // 1024
    for count in (100, 400, 1000):
        live: list[int] = []
        written = 0
        for arrived in range(1, count + 1):
            live.append(unit)
            if arrived % every == 0:
                sizes = dict(enumerate(live))
                for group in merged(*(data_file(n, size) for n, size in sizes.items())):
                    live.append(sum(sizes.pop(n) for n in group))
                    sizes[len(live) - 1] = live[-1]
                    written += live[-1]
                live = list(sizes.values())
        assert written / (count * unit) <= 2 * log2(count), (count, every)
        assert len(live) <= 2 * log2(count) + every


def test_files_with_enough_deletes_are_rewritten_together() -> None:
    files = [data_file(1, deleted=95), data_file(2, deleted=94), data_file(3, deleted=60, inlined=35), data_file(4)]
    assert rewritten(*files) == [[1, 3]]


def test_threshold_of_zero_takes_only_files_with_deletes() -> None:
    assert rewritten(data_file(1), data_file(2, deleted=1), threshold=0) == [[2]]


def test_large_file_is_rewritten_whatever_its_size() -> None:
    assert rewritten(data_file(1, 2 * TARGET, deleted=99)) == [[1]]


def test_many_small_files_with_few_deletes_are_rewritten_only_as_a_crowd() -> None:
    files = [data_file(n, deleted=1) for n in range(8)]
    assert rewritten(*files) == []
    assert rewritten(*files[:7], crowds=True) == []
    assert rewritten(*files, crowds=True) == [list(range(8))]
