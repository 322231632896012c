"""Lakes of these tests, ours and the reference's, have a clean bill of health when a test is over."""

import os
from collections.abc import Iterator

import pytest

from ducklake_core import Lake
from ducklake_core.errors import CatalogError
from tests.fixtures.catalogs import Catalog, MakeCatalog


@pytest.fixture
def make_catalog(make_catalog: MakeCatalog) -> Iterator[MakeCatalog]:
    """Give what makes places for lakes, and let the doctor look at each of them in the end."""
    made: list[Catalog] = []

    def make() -> Catalog:
        made.append(make_catalog())
        return made[-1]

    yield make
    for catalog in made:
        check(catalog)


def check(catalog: Catalog) -> None:
    """Fail when something is broken in a lake, if there is one."""
    try:
        lake = Lake.open(catalog.url)
    except CatalogError:  # none was made, or only its tables
        return
    with lake:
        assert lake.doctor(full="DOCTOR_FULL" in os.environ) == []
