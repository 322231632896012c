"""The text of a snapshot's changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import CorruptCatalog
from ducklake_core.spec.changes import COMPACTIONS, ChangeKind, TableChange, format_changes, parse_changes

NAMES = st.text(min_size=1, max_size=8)
BY_ID = st.builds(
    TableChange,
    st.sampled_from([kind for kind in ChangeKind if not kind.is_named]),
    object_id=st.integers(min_value=0, max_value=2**63 - 1),
)
IN_SCHEMA = st.builds(
    TableChange,
    st.sampled_from([kind for kind in ChangeKind if kind.is_named and kind is not ChangeKind.CREATED_SCHEMA]),
    schema_name=NAMES,
    name=NAMES,
)
SCHEMAS = st.builds(TableChange, st.just(ChangeKind.CREATED_SCHEMA), name=NAMES)
CHANGES = st.lists(BY_ID | IN_SCHEMA | SCHEMAS, max_size=10).filter(
    lambda changes: (
        not COMPACTIONS & {c.kind for c in changes} or ChangeKind.INLINE_FLUSH not in {c.kind for c in changes}
    )
)  # no snapshot has both


@given(CHANGES)
def test_changes_survive_a_round_trip_as_a_set(changes: list[TableChange]) -> None:
    parsed = parse_changes(format_changes(changes))

    assert set(parsed) == set(changes)
    assert len(parsed) == len(set(changes))


@given(CHANGES)
def test_formatting_is_stable(changes: list[TableChange]) -> None:
    text = format_changes(changes)

    assert format_changes(parse_changes(text)) == text


@pytest.mark.parametrize("kind", [ChangeKind.MERGE_ADJACENT, ChangeKind.REWRITE_DELETE])
def test_compaction_is_told_as_a_flush_as_well_and_read_without(kind: ChangeKind) -> None:
    """The reference lets small deletes follow on the one and not on the other."""
    change = TableChange(kind, object_id=3)

    assert format_changes([change]) == f"inline_flush:3,{kind.value}:3"
    assert parse_changes(format_changes([change])) == (change,)
    assert parse_changes(f"{kind.value}:3,inline_flush:4")[1] == TableChange(ChangeKind.INLINE_FLUSH, object_id=4)


def test_names_may_hold_quotes_commas_and_tokens() -> None:
    text = 'created_table:"a,""b"."dropped_table:1,",created_schema:"x.y"'

    assert parse_changes(text) == (
        TableChange(ChangeKind.CREATED_TABLE, schema_name='a,"b', name="dropped_table:1,"),
        TableChange(ChangeKind.CREATED_SCHEMA, name="x.y"),
    )


@pytest.mark.parametrize("text", [None, ""])
def test_a_snapshot_without_text_has_no_changes(text: str | None) -> None:
    assert parse_changes(text) == ()


@pytest.mark.parametrize("text", ["INLINE_FLUSH:3", "flushed_inlined:3", "inline_flush:3,"])
def test_other_spellings_of_the_reference_are_read(text: str) -> None:
    assert parse_changes(text) == (TableChange(ChangeKind.INLINE_FLUSH, object_id=3),)


@pytest.mark.parametrize(
    "text",
    [
        "inlined_data_insert:3",
        "inserted_into_table",
        "inserted_into_table:",
        "inserted_into_table:-1",
        'inserted_into_table:"t"',
        "created_table:3",
        'created_table:"t"',
        'created_schema:"s"."t"',
        'created_table:"s"."t',
        "created_table:s.t",
        "altered_table:1;altered_table:2",
        "altered_table:1\n",
        ",altered_table:1",
    ],
)
def test_text_outside_the_grammar_is_a_corrupt_catalog(text: str) -> None:
    with pytest.raises(CorruptCatalog, match="cannot parse the changes"):
        parse_changes(text)


def test_a_rename_is_written_as_a_creation_of_the_new_name() -> None:
    rename = TableChange(ChangeKind.CREATED_TABLE, object_id=7, schema_name="main", name="new")

    assert format_changes([rename]) == 'created_table:"main"."new"'


def test_changes_are_written_in_the_order_of_the_reference() -> None:
    changes = [
        TableChange(ChangeKind.INLINED_INSERT, object_id=19),
        TableChange(ChangeKind.INLINED_INSERT, object_id=4),
        TableChange(ChangeKind.CREATED_TABLE, schema_name="main", name="zz"),
        TableChange(ChangeKind.CREATED_TABLE, schema_name="s1", name="q"),
        TableChange(ChangeKind.CREATED_VIEW, schema_name="main", name="mm"),
        TableChange(ChangeKind.CREATED_TABLE, schema_name="main", name="aa"),
        TableChange(ChangeKind.DROPPED_TABLE, object_id=9),
    ]

    assert format_changes(changes) == (
        'dropped_table:9,created_table:"main"."zz",created_view:"main"."mm",created_table:"main"."aa",'
        'created_table:"s1"."q",inlined_insert:4,inlined_insert:19'
    )
