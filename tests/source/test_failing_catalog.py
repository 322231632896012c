"""Reads out of a lake whose database fails at each statement in turn: the error is ours, and the next read is whole."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import chain, count
from typing import cast

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError
from ducklake_sources.data_source import DuckLakeDataSource
from tests.fixtures.failing import FailingCatalog
from tests.fixtures.proxy import Trouble
from tests.fixtures.pulls import Pull, events


@pytest.fixture
def options(failing_catalog: FailingCatalog) -> dict[str, str]:
    """Give the options that read a table with inlined rows, files and deletes of both."""
    catalog = failing_catalog.catalog
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 5)
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": list(range(10, 30))})
        lake.append("t", {"id": [1, 2, 3]})
        lake.delete("t", "id = 2 OR id = 20")
    return {"catalog": failing_catalog.url, "table": "t", "catalogTimeout": "0s"}


@pytest.mark.parametrize("trouble", Trouble)
def test_stream_goes_on_where_it_was_when_the_database_failed(
    failing_catalog: FailingCatalog, options: dict[str, str], trouble: Trouble
) -> None:
    def read(number: int | None) -> tuple[list[tuple[object, ...]], bool]:
        feed = {**options, "readChangeFeed": "true", "startingVersion": "0", "consumerId": f"c{number}"}
        if number is not None:
            failing_catalog.failing.fail_at(number, trouble)
        with ExitStack() as stack:
            pull: Pull | None = None
            with suppress(DuckLakeError):
                pull = stack.enter_context(closing(Pull(None, **feed)))
                pull.all()
            has_failed = failing_catalog.failing.end_failing()
            pull = pull or stack.enter_context(closing(Pull(None, **feed)))
            pull.all()
            return events(pa.concat_tables(pull.batches), "id"), has_failed

    wanted, _ = read(None)
    assert len(wanted) == 25

    for number in count():
        found, has_failed = read(number)
        assert found == wanted
        if not has_failed:
            return


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("feed", [{}, {"readChangeFeed": "true", "startingVersion": "0"}], ids=["table", "changes"])
def test_read_fails_with_our_error_and_goes_well_when_asked_again(
    failing_catalog: FailingCatalog, options: dict[str, str], feed: dict[str, str], trouble: Trouble
) -> None:
    def read() -> list[int]:
        source = DuckLakeDataSource({**options, **feed})
        reader = source.reader(source.schema())
        batches = cast("Iterator[pa.RecordBatch]", chain.from_iterable(map(reader.read, reader.partitions())))
        return sorted(i for one in batches for i in one.column("id").to_pylist())

    wanted = read()

    assert found_at_each_statement(failing_catalog, trouble, read) == {tuple(wanted)}


def found_at_each_statement(
    failing_catalog: FailingCatalog, trouble: Trouble, read: Callable[[], list[int]]
) -> set[tuple[int, ...]]:
    """Return what was read, though each statement failed once."""
    found = set()
    for number in count():
        failing_catalog.failing.fail_at(number, trouble)
        with suppress(DuckLakeError):
            found.add(tuple(read()))
        if not failing_catalog.failing.end_failing():
            return found
    raise AssertionError("unreachable")
