"""Whatever core names as its own can be imported from it."""

import pytest

import ducklake_core


@pytest.mark.parametrize("name", ducklake_core.__all__)
def test_public_name_is_there(name: str) -> None:
    assert getattr(ducklake_core, name).__name__ == name
