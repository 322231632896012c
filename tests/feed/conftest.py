"""A lake that DuckDB has made and that inlines nothing, for tests of the change feed."""

from collections.abc import Iterator

import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle


@pytest.fixture
def duckdb(catalog: Catalog, oracle: Oracle) -> Oracle:
    """Give DuckDB attached to a new lake that inlines nothing."""
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    return oracle


@pytest.fixture
def lake(duckdb: Oracle, catalog: Catalog) -> Iterator[Lake]:  # noqa: ARG001 # it creates the lake
    with Lake.open(catalog.url) as lake:
        yield lake
