"""Versions of the catalog format."""

import pytest

from ducklake_core.errors import CorruptCatalog, UnsupportedFormatVersion
from ducklake_core.spec.versions import CURRENT, Feature, FormatVersion


@pytest.mark.parametrize("feature", list(Feature))
def test_the_format_we_create_is_read_and_written(feature: Feature) -> None:
    version = FormatVersion.parse("1.0")

    version.require(feature)

    assert version.supports(feature)
    assert version == CURRENT


@pytest.mark.parametrize("text", ["0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1", "0.4"])
@pytest.mark.parametrize("feature", list(Feature))
def test_an_older_lake_is_refused_with_the_way_to_upgrade_it(text: str, feature: Feature) -> None:
    with pytest.raises(UnsupportedFormatVersion, match=r"AUTOMATIC_MIGRATION true") as caught:
        FormatVersion.parse(text).require(feature)

    assert f"format '{text}'" in caught.value.message
    assert caught.value.version == text


def test_no_way_to_upgrade_leads_past_the_formats_we_know() -> None:
    """DuckDB 2.0 migrates to its newest format where it is not told otherwise, and no lake comes back from there."""
    with pytest.raises(UnsupportedFormatVersion) as caught:
        FormatVersion.parse("0.4").require(Feature.READ)

    first, second = caught.value.message.split("; or ")
    assert "DuckDB 1.5" in first
    assert "with DuckDB 2.0" in second
    assert f"(AUTOMATIC_MIGRATION true, DUCKLAKE_VERSION '{CURRENT.text}')" in second


@pytest.mark.parametrize("text", ["1.1-dev1", "1.1"])
def test_a_known_newer_lake_is_refused(text: str) -> None:
    with pytest.raises(
        UnsupportedFormatVersion, match=rf"format '{text}', but reading needs format '1.0'.*upgrade ducklake-streaming"
    ):
        FormatVersion.parse(text).require(Feature.READ)


@pytest.mark.parametrize("text", ["1.2", "2.0", "0.10", "1.0 ", "", "1"])
def test_an_unknown_version_is_refused_without_a_guess(text: str) -> None:
    with pytest.raises(UnsupportedFormatVersion, match="is unknown"):
        FormatVersion.parse(text)


def test_a_catalog_without_a_version_is_corrupt() -> None:
    with pytest.raises(CorruptCatalog, match="no row with key 'version'"):
        FormatVersion.parse(None)
