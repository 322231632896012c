"""Changes that cannot be applied to a table, found one by one and kept with the reason. Pure; runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.plan.conform import conform
from ducklake_core.spec.names import fold
from ducklake_sinks.bad_rows import bad_rows, divided
from ducklake_sinks.change_rules import IS_DELETE, IS_TRUNCATE, ChangeRules
from ducklake_sinks.dead_letters import BadRow


def fitting_changes(
    data: pa.Table, columns: Sequence[Column], table_name: str, rules: ChangeRules
) -> tuple[pa.Table, list[BadRow]]:
    """Return the changes that can be applied, and the others: without key or sequence, or not fit for the table."""
    placed, nameless = _with_keys(data, rules)
    names = {fold(column.name) for column in columns} - {fold(name) for name in rules.except_columns}

    def check(part: pa.Table) -> pa.Table:
        rows = part.select([name for name in part.column_names if fold(name) in names])
        conform(rows.filter(pa.array(~_any(part, (IS_DELETE, IS_TRUNCATE)))), columns, table_name, fill_missing=True)
        return part

    good, unfit = divided(placed, check)
    return good, [*nameless, *unfit]


def _with_keys(data: pa.Table, rules: ChangeRules) -> tuple[pa.Table, list[BadRow]]:
    """Part the changes that lack a key or a sequence; one that truncates needs no key."""
    names, reasons = {fold(name): name for name in data.column_names}, np.full(data.num_rows, None, object)
    truncates = _any(data, (IS_TRUNCATE,))
    for role, wanted in (("sequence", rules.sequence_by), ("key", rules.keys)):
        for column in wanted:
            is_null = data.column(names[fold(column)]).is_null().to_numpy()
            reasons[is_null & ~(truncates & (role == "key"))] = f"a null in the {role} column '{column}'"
    is_bad = reasons != None  # noqa: E711 # of each element
    if not is_bad.any():
        return data, []
    return data.filter(pa.array(~is_bad)), bad_rows(data.filter(pa.array(is_bad)), reasons[is_bad].tolist())


def _any(data: pa.Table, marks: Sequence[str]) -> np.ndarray:
    found = np.zeros(data.num_rows, bool)
    for mark in marks:
        if mark in data.column_names:
            found |= data.column(mark).to_numpy().astype(bool)
    return found
