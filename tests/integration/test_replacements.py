"""`overwrite` and `restore`: one snapshot each, of which DuckDB reads the same rows and the same changes."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from ducklake_core import CommitResult, Lake, Transaction
from ducklake_core.errors import CommitConflict, InvalidInput, NotNullViolation, ObjectNotFound
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.extension_exceptions import unexplained
from tests.fixtures.feeds import Events, State, extension_feed_of, feed_of, state_of, values_of
from tests.fixtures.oracle import Oracle

MANY = 40  # more than are inlined
Act = Callable[[Lake], object]


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a table `t` of rows in a file and of inlined ones."""
    with Lake.create(catalog.url, catalog.data_path) as made:
        made.create_table("t", {"i": "int32", "s": "varchar"})
        made.append("t", {"i": range(MANY), "s": [f"x{i}" for i in range(MANY)]})
        made.append("t", {"i": [100, 101, 102], "s": ["a", "b", None]})
        yield made


def head(lake: Lake) -> int:
    return lake.snapshots()[-1].snapshot_id


def state(lake: Lake, at: int) -> State:
    return state_of(lake, lake.table("t").version, at)


def check_last(lake: Lake, oracle: Oracle, catalog: Catalog) -> Events:
    """See that DuckDB finds the rows of the head and the changes of its snapshot, and return these."""
    last = head(lake)
    oracle.attach(catalog.attach)
    rows, columns = lake.table("t").read(), ", ".join(lake.table("t").schema.names)
    assert Counter(values_of(oracle.arrow(f"SELECT {columns} FROM t"))) == Counter(values_of(rows))
    events = feed_of(lake, lake.table("t").version, last - 1, last)
    theirs = extension_feed_of(oracle, "t", last - 1, last)
    assert not unexplained(events, theirs, lake, lake.table("t").version, last - 1, last)
    oracle.detach()
    check_lake(catalog, orphans=0)
    return events


def meanwhile(monkeypatch: pytest.MonkeyPatch, catalog: Catalog, act: Act) -> None:
    """Let another do something when the next commit has been prepared."""
    commit = Transaction.commit

    def act_and_commit(self: Transaction) -> CommitResult:
        monkeypatch.setattr(Transaction, "commit", commit)
        with Lake.open(catalog.url) as other:
            act(other)
        return commit(self)

    monkeypatch.setattr(Transaction, "commit", act_and_commit)


def kinds(events: Events) -> dict[str, int]:
    found: Counter[str] = Counter()
    for event, count in events.items():
        found[event.kind] += count
    return dict(found)


def test_overwrite_replaces_what_matches_in_one_snapshot(lake: Lake, oracle: Oracle, catalog: Catalog) -> None:
    before = head(lake)

    lake.overwrite("t", {"i": [3, 100], "s": ["new", "new"]}, "i < 10 OR i = 100")

    assert head(lake) == before + 1
    assert kinds(check_last(lake, oracle, catalog)) == {"delete": 11, "insert": 2}
    assert lake.table("t").count() == MANY + 3 - 11 + 2

    lake.overwrite("t", {"i": range(MANY), "s": ["all"] * MANY})

    assert head(lake) == before + 2
    assert set(lake.table("t").read(["s"]).column("s").to_pylist()) == {"all"}
    check_last(lake, oracle, catalog)


def test_overwrite_ends_whole_files(lake: Lake, catalog: Catalog) -> None:
    lake.overwrite("t", {"i": [1], "s": ["one"]})

    assert lake.table("t").files() == ()
    assert catalog.query("SELECT count(*) FROM ducklake_delete_file") == [(0,)]


def test_overwrite_with_rows_that_do_not_match_changes_nothing(lake: Lake) -> None:
    before = head(lake)

    with pytest.raises(InvalidInput, match=r"1 of 2 rows for table 'main.t' do not match .* such as one with {'i': 7}"):
        lake.overwrite("t", {"i": [3, 7], "s": ["new", "new"]}, "i < 5")

    assert head(lake) == before


def test_overwrite_begins_again_when_rows_have_moved(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, catalog, lambda other: other.flush_inlined("t"))

    lake.overwrite("t", {"i": [1], "s": ["one"]})

    assert lake.table("t").read().to_pylist() == [{"i": 1, "s": "one"}]


@pytest.mark.parametrize(("act", "where"), [("overwrite", None), ("overwrite", "i = 7000"), ("DuckDB", "i = 7000")])
def test_overwrite_comes_after_rows_that_it_has_not_seen(
    lake: Lake, oracle: Oracle, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, act: str, where: str | None
) -> None:
    """It finds no row to delete, so that only what it rests on keeps others' rows from staying beside its own."""
    if where is None:
        lake.delete("t", None)
    others = lake.table("t").count()

    def write(other: Lake) -> None:
        if act == "overwrite":
            other.overwrite("t", {"i": [7000], "s": ["other"]}, where)
        else:
            oracle.attach(catalog.attach)
            oracle.execute("INSERT INTO t VALUES (7000, 'other')")
            oracle.detach()

    meanwhile(monkeypatch, catalog, write)
    lake.overwrite("t", {"i": [7000], "s": ["mine"]}, where)

    assert lake.table("t").read(filter="i = 7000").to_pylist() == [{"i": 7000, "s": "mine"}]
    assert lake.table("t").count() == others + 1
    check_last(lake, oracle, catalog)


def test_overwrite_in_a_transaction_is_a_conflict_beside_rows_that_another_adds(lake: Lake, catalog: Catalog) -> None:
    tx = lake.transaction()
    tx.overwrite("t", {"i": [7000], "s": ["mine"]}, "i = 7000")
    with Lake.open(catalog.url) as other:
        other.append("t", {"i": [7000], "s": ["other"]})

    with pytest.raises(CommitConflict, match="had rows inserted"):
        tx.commit()


# What may have happened since, each as one or more snapshots.
SINCE: dict[str, list[Act]] = {
    "nothing": [],
    "appended": [lambda lake: lake.append("t", {"i": [200], "s": ["c"]})],
    "deleted": [lambda lake: lake.delete("t", "i IN (3, 101)"), lambda lake: lake.delete("t", "i < 20")],
    "updated": [
        lambda lake: lake.update("t", {"s": "new"}, "i IN (3, 100, 101)"),
        lambda lake: lake.update("t", {"s": "x4"}, "i = 4"),  # as it was: an update all the same
        lambda lake: lake.delete("t", "i = 101"),
    ],
    "emptied": [lambda lake: lake.delete("t", None), lambda lake: lake.append("t", {"i": [1], "s": ["other"]})],
    "flushed": [
        lambda lake: lake.update("t", {"s": "new"}, "i = 102"),
        lambda lake: lake.flush_inlined("t"),
        lambda lake: lake.delete("t", "i = 100"),
        lambda lake: lake.append("t", {"i": [200], "s": ["c"]}),
        lambda lake: lake.flush_inlined("t"),
    ],
    "merged": [
        lambda lake: lake.append("t", {"i": range(300, 300 + MANY), "s": ["m"] * MANY}),
        lambda lake: lake.merge_adjacent_files("t"),
        lambda lake: lake.delete("t", "i IN (5, 305)"),
    ],
    "appended and merged": [
        lambda lake: lake.append("t", {"i": range(300, 300 + MANY), "s": ["m"] * MANY}),
        lambda lake: lake.merge_adjacent_files("t"),
    ],
    "rewritten": [
        lambda lake: lake.delete("t", "i < 38"),
        lambda lake: lake.rewrite_data_files("t", delete_threshold=0.1),
        lambda lake: lake.update("t", {"s": "new"}, "i = 39"),
    ],
    "altered": [
        lambda lake: lake.add_column("t", "n", "int64", 5),
        lambda lake: lake.update("t", {"n": 6}, "i = 2"),
        lambda lake: lake.rename_column("t", "s", "text"),
        lambda lake: lake.promote_column("t", "i", "int64"),
        lambda lake: lake.append("t", {"i": [2**40], "text": ["c"], "n": [1]}),
    ],
}


@pytest.mark.parametrize("since", SINCE.values(), ids=SINCE)
def test_restore_makes_rows_what_they_were(lake: Lake, oracle: Oracle, catalog: Catalog, since: list[Act]) -> None:
    to = head(lake)
    for act in since:
        act(lake)
    before, wanted = state(lake, head(lake)), state(lake, to)

    made = lake.restore("t", to)

    assert (made is None) == (before == wanted)
    assert state(lake, head(lake)) == wanted  # with the same row ids
    if made is not None:
        events = check_last(lake, oracle, catalog)
        ended = Counter((e.row_id, e.values) for e in events.elements() if e.removes)
        begun = Counter((e.row_id, e.values) for e in events.elements() if not e.removes)
        assert (ended, begun) == (before - wanted, wanted - before)  # the difference, and nothing else
    assert lake.restore("t", to) is None


def test_restore_goes_there_and_back(lake: Lake, oracle: Oracle, catalog: Catalog) -> None:
    first = head(lake)
    for acts in SINCE.values():
        for act in acts[:2] if acts is SINCE["altered"] else acts:
            act(lake)
    last = head(lake)

    lake.restore("t", first)
    lake.restore("t", last)

    assert state(lake, head(lake)) == state(lake, last)
    check_last(lake, oracle, catalog)


def test_restore_looks_again_when_another_has_written(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = head(lake)
    lake.delete("t", "i = 3")
    meanwhile(monkeypatch, catalog, lambda other: other.append("t", {"i": [200], "s": ["c"]}))

    lake.restore("t", to)

    assert state(lake, head(lake)) == state(lake, to)


def test_restore_in_a_transaction_is_a_conflict_beside_rows_that_an_upsert_would_let_pass(
    lake: Lake, catalog: Catalog
) -> None:
    to = head(lake)

    tx = lake.transaction()
    tx.upsert("t", {"i": [100], "s": ["new"]}, keys="i")
    tx.restore("t", to)
    tx.upsert("t", {"i": [100], "s": ["newer"]}, keys="i")
    with Lake.open(catalog.url) as other:
        other.append("t", {"i": [200], "s": ["c"]})
    with pytest.raises(CommitConflict):
        tx.commit()

    with lake.transaction() as tx:
        tx.append("t", {"i": [7000], "s": ["own"]})  # goes, too
        tx.upsert("t", {"i": [100], "s": ["new"]}, keys="i")
        assert tx.restore("t", to) == 2  # what another has added, and the row that is back
    assert state(lake, head(lake)) == state(lake, to)


def test_what_cannot_be_restored_is_refused(lake: Lake) -> None:
    to = head(lake)
    lake.create_table("u", {"i": "int32"})
    lake.delete("t", "s IS NULL")
    lake.set_not_null("t", "s")
    last = head(lake)

    with pytest.raises(ObjectNotFound, match=r"table 'main.u' to snapshot \d+: it was not there yet"):
        lake.restore("u", to)
    with pytest.raises(NotNullViolation):
        lake.restore("t", to)
    with pytest.raises(ObjectNotFound):
        lake.restore("t", 1000)
    for no_id in (True, "3", 3.5):
        with pytest.raises(InvalidInput, match="is no snapshot: give its id"):
            lake.restore("t", no_id)  # type: ignore[arg-type] # what is refused

    assert head(lake) == last


def test_rows_that_share_an_id_are_not_restored(lake: Lake, oracle: Oracle, catalog: Catalog) -> None:
    """DuckDB gives one id to rows that its transactions insert and update."""
    oracle.attach(catalog.attach)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0); CREATE TABLE u (i INTEGER)")
    for i in (1, 2):
        oracle.execute(f"BEGIN; INSERT INTO u VALUES ({i}); UPDATE u SET i = i * 10 WHERE i = {i}; COMMIT")
    to = head(lake)
    lake.delete("u", "i = 20")
    lake.update("u", {"i": 11}, "i = 10")
    last = head(lake)

    with pytest.raises(InvalidInput, match="several rows have the id"):
        lake.restore("u", to)

    assert head(lake) == last
    lake.overwrite("u", lake.table("u", at=to).read())
    assert sorted(lake.table("u").read()["i"].to_pylist()) == [10, 20]
