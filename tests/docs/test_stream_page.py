"""The table of options on the page about change feeds is that of the code."""

import re
from pathlib import Path

from ducklake_sources.options import _PARSERS, parse_options

PAGE = Path(__file__).parents[2] / "docs" / "change-feed.md"
ONLY_FOR_TABLES = {"versionAsOf", "timestampAsOf", "filter", "filterPushdown"}


def test_every_option_of_a_stream_is_explained() -> None:
    [table] = re.findall(r"^\| option \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.MULTILINE))

    assert set(rows) == set(_PARSERS) - ONLY_FOR_TABLES
    defaults = parse_options({"catalog": "sqlite:///x.sqlite", "table": "t"})
    assert rows["maxVersionsPerTrigger"].strip() == f"`{defaults.max_versions_per_trigger}`"
    assert rows["consumerExpiration"].strip() == f"`{defaults.consumer_expiration.days}d`"
    assert rows["failOnDataLoss"].strip() == "`true`"
    assert defaults.fail_on_data_loss
