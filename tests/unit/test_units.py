import pytest

from recollect.units import folded, human_bytes


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (7.1e9, "7.1 GB"), (5e15, "5000.0 TB")],
)
def test_bytes(num_bytes: float, expected: str) -> None:
    assert human_bytes(num_bytes) == expected


def test_lines_are_broken_between_their_parts() -> None:
    assert folded("one   two   three", 9) == ["one   two", "three"]
    assert folded("one · two · three", 3) == ["one", "two", "three"]
    assert folded("one   two", 9) == ["one   two"]
