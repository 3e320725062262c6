from dataclasses import dataclass, replace
from typing import Any

import pytest

from recollect.errors import ConfigError
from recollect.options import Check, Options, count, count_or_zero, flag, number, one_of, option, optional


@dataclass(frozen=True, kw_only=True)
class Knobs(Options):
    size: int = option(3, "How large.", count)
    share: float = option(0.5, "How much.", number(0.0, 1.0))
    label: str = option("a", "What it is called.")


def test_options_are_checked_when_made_and_when_changed() -> None:
    with pytest.raises(ConfigError, match="size must be at least 1, got 0"):
        Knobs(size=0)
    with pytest.raises(ConfigError, match="share must be a number at least 0 and at most 1, got 2"):
        replace(Knobs(), share=2)


def test_whole_numbers_beyond_floats_are_refused() -> None:
    with pytest.raises(ConfigError, match="share must be a number at least 0"):
        Knobs(share=10**400)
    with pytest.raises(ConfigError, match="size must be at least 1"):
        Knobs(size=-(10**400))
    for other in (float("inf"), float("nan"), 0.5):
        with pytest.raises(ConfigError, match="size must be a whole number"):
            Knobs(size=other)  # type: ignore[arg-type]


def test_options_come_in_their_own_type() -> None:
    knobs = Knobs(size=4.0, share=1)  # type: ignore[arg-type]
    assert (type(knobs.size), type(knobs.share)) == (int, float)


def test_options_say_what_they_are_for() -> None:
    assert Knobs.docs() == {"size": "How large.", "share": "How much.", "label": "What it is called."}


def test_unknown_options_are_refused_in_the_name_of_their_owner() -> None:
    assert Knobs.of("box", {"size": 5}) == Knobs(size=5)
    with pytest.raises(ConfigError, match=r"box has no option 'sise'; did you mean 'size'\?"):
        Knobs.of("box", {"sise": 5})


def test_only_what_differs_from_the_defaults() -> None:
    assert Knobs().changed() == {}
    assert Knobs(label="b", size=3).changed() == {"label": "b"}


def test_options_are_shown_as_one_writes_them_and_functions_by_their_names() -> None:
    given: Any = {"size": 5, "label": count_or_nothing}
    assert Knobs(**given).summary() == "size=5, label=count_or_nothing"
    assert Knobs(**given).summary("size") == "label=count_or_nothing"


def count_or_nothing() -> None:
    """Something that is called."""


@pytest.mark.parametrize(
    ("check", "good", "result", "bad"),
    [
        (count, 2.0, 2, 0),
        (count_or_zero, 0, 0, -1),
        (count_or_zero, 0.0, 0, True),
        (flag, True, True, 1),
        (number(0.0, above_low=True), 1, 1.0, 0.0),
        (one_of("a", "b"), "b", "b", "c"),
        (optional(count), None, None, "x"),
        (optional(count), 3, 3, 0.5),
    ],
)
def test_checks(check: Check, good: Any, result: Any, bad: Any) -> None:
    found = check("it", good)
    assert (found, type(found)) == (result, type(result))
    with pytest.raises(ConfigError, match=r"^it must be "):
        check("it", bad)


def test_a_number_that_may_be_zero_says_so() -> None:
    with pytest.raises(ConfigError, match="seed must be at least 0, got -1"):
        count_or_zero("seed", -1)
