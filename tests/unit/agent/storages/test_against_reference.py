"""Every buffer against the reference model, over random programs that make all pairs of features meet."""

import os
from math import ceil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.programs import (
    MAX_OPERATIONS,
    Features,
    covering_rows,
    make_program,
    pairs_of,
    possible_pairs,
    programs,
)
from tests.running import run

ROWS = covering_rows()
SIZES = {"small": 250, "default": 2_100, "long": 50_000}


def num_programs() -> int:
    """How many programs to run in total: many more in the long suite, few when only a mutant must die."""
    if os.environ.get("RECOLLECT_LONG") == "1":
        return SIZES["long"]
    return SIZES[os.environ.get("RECOLLECT_PROGRAMS", "default")]


@pytest.mark.parametrize(
    "features", ROWS, ids=lambda features: f"{features['buffer']}-{features['observation']}"
)
@settings(
    max_examples=ceil(num_programs() / len(ROWS)),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_program(features: Features, data: st.DataObject) -> None:
    run(data.draw(programs(features)))


def test_rows_cover_every_pair_of_features() -> None:
    covered = set().union(*(pairs_of(features) for features in ROWS))
    assert covered == possible_pairs()


def test_programs_really_have_their_features() -> None:
    """A row says what may happen; here every pair happens in a program that was run."""
    missing = possible_pairs()
    for seed in range(12):
        for features in ROWS:
            if pairs_of(features) & missing:
                missing -= pairs_of(run(make_program(features, seed, MAX_OPERATIONS)).realised())
    assert not missing, sorted(map(sorted, missing))
