"""What is prefetched comes in order, with its errors, and ends with who uses it."""

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from ducklake_core.prefetch import prefetched


def numbers(seen: list[object], last: int = 5) -> Generator[int, None, None]:
    try:
        for number in range(last):
            seen.append(number)
            yield number
    finally:
        seen.append(threading.current_thread().name)


def test_all_items_come_in_order_from_another_thread() -> None:
    seen: list[object] = []

    assert list(prefetched(numbers(seen))) == [0, 1, 2, 3, 4]
    assert str(seen[-1]).startswith("prefetch")


def test_nothing_begins_before_it_is_asked_for() -> None:
    seen: list[object] = []

    with closing(prefetched(numbers(seen))):
        assert seen == []


def test_one_item_is_made_ahead_and_no_more() -> None:
    seen: list[object] = []

    with closing(prefetched(numbers(seen))) as items:
        assert next(items) == 0

    assert seen[:-1] == [0, 1]
    assert str(seen[-1]).startswith("prefetch")


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise OSError("no more")

    items = prefetched(failing())
    assert next(items) == 1
    with pytest.raises(OSError, match="no more"):
        next(items)
