import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from recollect.agent.actors import Actor, ActorPlan, OffPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.errors import ConfigError
from tests.unit.agent.actors.actors import BOX, FLAT, SAC, make_actor


class _Algorithm:
    @classmethod
    def plan(cls, action_space: Any) -> ActorPlan:
        return ActorPlan(None, "q_values") if isinstance(action_space, Discrete) else SAC


def _weights(actor: Actor) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in actor.state_dict().values()])


def test_first_weights_depend_on_the_seed_alone() -> None:
    factories = [OffPolicyActor.create_factory(FLAT, BOX, SAC, seed=seed, memory="gru") for seed in (1, 1, 2)]
    torch.manual_seed(5)
    first = _weights(factories[0]("cpu"))
    torch.manual_seed(6)
    assert torch.equal(first, _weights(factories[1]("cpu")))
    assert not torch.equal(first, _weights(factories[2]("cpu")))


def test_first_actions_depend_on_the_seed() -> None:
    first, second, other = (make_actor("sac", seed=seed).random_actions(3) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_building_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    make_actor("sac", memory="lstm")
    assert torch.equal(torch.get_rng_state(), before)


def test_two_actors_of_one_factory_are_equal_and_apart() -> None:
    factory = OffPolicyActor.create_factory(FLAT, BOX, SAC)
    first, second = factory("cpu"), factory("cpu")
    assert torch.equal(_weights(first), _weights(second))
    assert torch.equal(first.random_actions(3), second.random_actions(3))
    first.policy_parameters()[0].data += 1.0
    assert not torch.equal(_weights(first), _weights(second))


def test_a_factory_that_was_sent_builds_the_same_actor() -> None:
    factory = OffPolicyActor.create_factory(FLAT, BOX, SAC, seed=3, hidden_sizes=(8,))
    sent = pickle.loads(pickle.dumps(factory))
    assert sent == factory
    assert torch.equal(_weights(sent("cpu")), _weights(factory("cpu")))


def test_a_factory_says_what_it_builds() -> None:
    factory = OffPolicyActor.create_factory(FLAT, BOX, SAC, seed=3, memory="gru", restart_model="a.safetensors")
    text = repr(factory)
    for part in ("OffPolicyActor", "squashed_gaussian", "memory='gru'", "seed=3", "restart_model='a.safetensors'"):
        assert part in text
    assert "activation" not in text


@pytest.mark.parametrize("algorithm", [_Algorithm, SAC, "sac"])
def test_an_algorithm_is_a_class_a_plan_or_a_name(algorithm: Any) -> None:
    assert OffPolicyActor.create_factory(FLAT, BOX, algorithm).plan == SAC


def test_an_algorithms_plan_is_made_for_the_action_space() -> None:
    assert OffPolicyActor.create_factory(FLAT, Discrete(2), _Algorithm).plan.critic == "q_values"


@pytest.mark.parametrize(("algorithm", "hint"), [("sca", "did you mean 'sac'"), (3, "ActorPlan")])
def test_an_unknown_algorithm_is_refused(algorithm: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        OffPolicyActor.create_factory(FLAT, BOX, algorithm)


def test_a_factory_of_an_algorithm_brings_its_options() -> None:
    algorithm = ALGORITHMS["sac"].create_factory(num_critics=5)
    factory = OffPolicyActor.create_factory(FLAT, BOX, algorithm, hidden_sizes=(8,))
    assert factory.plan == replace(SAC, num_critics=5)
    assert factory("cpu").critics(torch.zeros(3, 3), torch.zeros(3, 2)).shape == (5, 3, 1)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="actor has no option 'hiden_sizes'; did you mean 'hidden_sizes'"):
        OffPolicyActor.create_factory(FLAT, BOX, SAC, hiden_sizes=(8,))


def test_an_actor_may_begin_with_saved_weights(tmp_path: Path) -> None:
    trained = make_actor("sac", seed=1)
    trained.save(tmp_path / "actor.safetensors")
    options: Any = {"hidden_sizes": (8, 8), "restart_model": tmp_path / "actor.safetensors"}
    restarted = OffPolicyActor.create_factory(FLAT, BOX, SAC, seed=2, **options)("cpu")
    assert torch.equal(_weights(restarted), _weights(trained))
