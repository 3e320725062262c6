"""Every buffer against the reference model, over random programs that make all pairs of features meet."""

import os
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.programs import (
    FEATURES,
    MAX_OPERATIONS,
    Change,
    Features,
    Insert,
    Program,
    Reset,
    Sample,
    covering_rows,
    make_config,
    make_program,
    pairs_of,
    possible_pairs,
    programs,
)
from tests.running import run

pytestmark = pytest.mark.filterwarnings("ignore::recollect.errors.RecollectWarning")
ROWS = covering_rows()
SIZES = {"small": 300, "default": 2_100, "long": 50_000}


def num_programs() -> int:
    """How many programs to run in total: many more in the long suite, few when only a mutant must die."""
    if os.environ.get("RECOLLECT_LONG") == "1":
        return SIZES["long"]
    return SIZES[os.environ.get("RECOLLECT_PROGRAMS", "default")]


@pytest.mark.parametrize("features", ROWS, ids=lambda features: f"{features['buffer']}-{features['observation']}")
@settings(max_examples=ceil(num_programs() / len(ROWS)), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_program(features: Features, data: st.DataObject) -> None:
    run(data.draw(programs(features)))


LARGE: list[Features] = [
    {"buffer": "ere", "priorities": "mixed", "recent": "window", "envs": "several"},
    {"buffer": "per", "priorities": "mixed", "unit": "sequences", "envs": "several"},
    {"buffer": "nstep", "observation": "odd_frames", "n_step": "several"},
    *({"buffer": "her", "strategy": name} for name in FEATURES["strategy"]),
]


@pytest.mark.parametrize("wanted", LARGE, ids=lambda wanted: "-".join(wanted.values()))
def test_large_store(wanted: Features) -> None:
    """Many short episodes in long lanes: deeper trees and longer indices than the programs have."""
    matching = [row for row in ROWS if row["buffer"] == wanted["buffer"] and row["goals"] != "columns"]
    features = matching[0] | {"sources": "one", "inserts": "both"} | wanted
    config = make_config(features, np.random.default_rng(1))
    config = replace(
        config,
        settings=replace(config.settings, max_size=230, num_envs=3 if wanted.get("envs") else 1),
        stream=replace(config.stream, end_probability=0.4),
    )
    sample = Sample(num_batches=3, batch_size=64, num_epochs=1, is_trained=True, is_fed=False)
    operations = [
        operation
        for num_steps in (100, 50, 120, 90)
        for operation in (Insert(0, num_steps, num_steps == 50, None, False), sample)
    ]
    run(Program(config, (*operations, Change("max_size", 300), sample, operations[0], sample), 1))


@pytest.mark.parametrize("seed", range(20))
def test_sequences_after_a_reset(seed: int) -> None:
    """The last steps before a reset are the burn-in of the first sequence after it."""
    features = next(row for row in ROWS if row["unit"] == "sequences" and row["optional"] == "all")
    config = make_config(features | {"sources": "one", "inserts": "slices"}, np.random.default_rng(seed))
    config = replace(config, settings=replace(config.settings, max_size=12, length=4, overlap=1 + seed % 3))
    sample = Sample(num_batches=2, batch_size=40, num_epochs=1, is_trained=True, is_fed=False)
    inserts = [Insert(0, num_steps, False, None, False) for num_steps in (1 + seed, 3, 2, 4)]
    steps = (inserts[0], Reset(), inserts[1], sample, inserts[2], sample, Reset(), Reset(), inserts[3], sample)
    run(Program(config, steps, seed))


def test_rows_cover_every_pair_of_features() -> None:
    covered = set().union(*(pairs_of(features) for features in ROWS))
    assert covered == possible_pairs()


@pytest.mark.slow
def test_programs_really_have_their_features() -> None:
    """A row says what may happen; here every pair happens in a program that was run."""
    missing = possible_pairs()
    for seed in range(12):
        for features in ROWS:
            if pairs_of(features) & missing:
                missing -= pairs_of(run(make_program(features, seed, MAX_OPERATIONS)).realised())
    assert not missing, sorted(map(sorted, missing))
