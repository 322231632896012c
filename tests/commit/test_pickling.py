"""What travels between driver and executors pickles: every error with its facts, and the catalog's address."""

import inspect
import pickle

import pytest

from ducklake_core import errors
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import DuckLakeError, TerminalError, TransientError
from tests.fixtures.catalogs import Catalog

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DuckLakeError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_error_survives_pickling_with_its_facts(kind: type[DuckLakeError]) -> None:
    error = kind("cannot do 'it'", snapshot_id=7, name="main.t")

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 # our own bytes

    assert type(copy) is kind
    assert str(copy) == "cannot do 'it'"
    assert (copy.snapshot_id, copy.name) == (7, "main.t")


def test_every_error_says_by_its_type_whether_to_try_again() -> None:
    undecided = [k for k in ERRORS if not issubclass(k, (TransientError, TerminalError))]

    assert undecided == [errors.CommitOutcomeUnknown, DuckLakeError]


def test_error_that_lacks_a_fact_says_so() -> None:
    with pytest.raises(AttributeError):
        _ = DuckLakeError("no facts").snapshot_id


def test_database_travels_as_its_address_and_connects_anew(catalog: Catalog) -> None:
    database = Database(CatalogUrl.parse(catalog.url), lock_timeout_seconds=7)
    with database.write(checks_version=False) as session:
        session.begin()

    copy = pickle.loads(pickle.dumps(database))  # noqa: S301 # our own bytes

    assert copy.url == database.url
    assert copy.lock_timeout_seconds == 7
    with copy.write(checks_version=False) as session:
        session.begin()
    database.close()
    copy.close()
