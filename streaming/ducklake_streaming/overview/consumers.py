"""What is shown of who reads changes of tables. No Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.values import shown_age, shown_count, shown_flag

if TYPE_CHECKING:
    from ducklake_core.model import Consumer, LakeTotals

FIELDS = (
    Field("consumer", "consumer"),
    Field("table", "table"),
    Field("snapshot", "has read", is_number=True),
    Field("lag_snapshots", "behind", shown_count, is_number=True),
    Field("age_seconds", "heard of", shown_age, is_number=True),
    Field("expired", "expired", shown_flag),
)


def consumer_rows(consumers: Iterable[Consumer], totals: LakeTotals, now: datetime) -> list[Row]:
    """Return what is shown of each consumer."""
    names = {table.table_uuid: table.name for table in totals.tables}
    return [
        {
            "consumer": one.name,
            "table": names.get(one.table_uuid, "(dropped)"),
            "snapshot": one.snapshot_id,
            "lag_snapshots": totals.head.snapshot_id - one.snapshot_id,
            "age_seconds": round((now - one.updated_at).total_seconds(), 1),
            "expired": one.expires_at is not None and one.expires_at <= now,
        }
        for one in consumers
    ]
