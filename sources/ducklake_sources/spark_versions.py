"""What newer versions of Spark can ask of a stream, and older ones cannot: limits, and to end at what is there now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_sources.options import SourceOptions

try:  # from Spark 4.2 on
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    HAS_LIMITS = False
    AvailableNow: type = object  # Spark itself ends the query at the first offset that it is told
else:
    HAS_LIMITS = True
    AvailableNow = SupportsTriggerAvailableNow


def read_limit(options: SourceOptions) -> Any:  # Any: Spark's ReadLimit, which older versions do not have
    """Return the limit that Spark shows and hands back to us; that it is one at all is what counts."""
    if options.max_rows_per_trigger is not None:
        return ReadMaxRows(options.max_rows_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    return ReadMaxFiles(options.max_versions_per_trigger)


def is_unlimited(limit: Any) -> bool:  # Any: see read_limit
    """Tell whether Spark wants everything: a trigger such as `once` overrules the options."""
    return HAS_LIMITS and isinstance(limit, ReadAllAvailable)
