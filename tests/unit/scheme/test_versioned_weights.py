"""What one worker has learned, another continues with."""

import numpy as np
import pytest
import torch

from recollect.scheme.weights import apply_state, apply_weights, read_state, read_weights
from tests.schemes import make_scheme


@pytest.mark.parametrize("algo", ["ddqn", "sac"])
def test_weights_and_multipliers_travel(algo: str) -> None:
    left, right = make_scheme(algo, "replay"), make_scheme(algo, "replay")
    for _ in range(6):
        left.update_worker.step()
    weights = read_weights(left.algo, left.num_updates)
    for array in (*weights.actor.values(), *weights.multipliers.values()):
        array.setflags(write=False)
    apply_weights(right.algo, weights)
    weights = right.actor.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in left.actor.state_dict().items())
    multipliers = right.algo.multipliers.state_dict()
    assert all(torch.equal(value, multipliers[name]) for name, value in left.algo.multipliers.state_dict().items())
    assert right.algo.num_updates == left.num_updates > 0


def test_what_was_taken_does_not_change_with_the_weights() -> None:
    scheme = make_scheme()
    weights = read_weights(scheme.algo, 0)
    before = {name: array.copy() for name, array in weights.actor.items()}
    for _ in range(6):
        scheme.update_worker.step()
    assert all(np.array_equal(array, before[name]) for name, array in weights.actor.items())


def test_the_state_holds_all_but_chance_if_that_is_to_stay() -> None:
    left, right = make_scheme("sac", "replay"), make_scheme("sac", "replay")
    for _ in range(6):
        left.update_worker.step()
    chance = right.algo.generator.get_state()
    apply_state(right.algo, read_state(left.algo), with_chance=False)
    assert torch.equal(right.algo.generator.get_state(), chance)
    apply_state(right.algo, read_state(left.algo), with_chance=True)
    states = [left.algo.state(), right.algo.state()]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][name])), name
