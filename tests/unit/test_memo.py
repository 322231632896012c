"""What is remembered is asked again only when it may be another."""

from ducklake_core.spec.memo import per_object_while_same


def test_function_is_called_again_for_another_object_and_for_another_value() -> None:
    calls: list[tuple[tuple[int, ...], list[int]]] = []

    @per_object_while_same(list[int].__eq__)
    def total(key: tuple[int, ...], other: list[int]) -> int:
        calls.append((key, other))
        return sum(key) + sum(other)

    one, two = tuple(range(2)), tuple(range(2))  # equal, and two objects

    assert [total(one, [3]), total(one, [3]), total(two, [3]), total(one, [4]), total(one, [3])] == [4, 4, 4, 5, 4]
    assert calls == [(one, [3]), (two, [3]), (one, [4]), (one, [3])]
