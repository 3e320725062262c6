"""What every algorithm takes from its base: pace, gradients, parameters that change, and refusals."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, Space, Text
from torch import nn

from recollect import keys
from recollect.agent.actors.networks.distributions import SquashedGaussian
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.algorithms.factory import AlgorithmFactory
from recollect.agent.algorithms.off_policy.sac import SAC, SACConfig
from recollect.agent.algorithms.optimiser import OPTIMISERS
from recollect.errors import ConfigError, NotFiniteError, RecollectWarning
from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch

PACE = {
    "gamma": 0.5,
    "start_steps": 7,
    "num_epochs": 2,
    "update_every": 3,
    "num_mini_batch": 4,
    "mini_batch_size": 5,
    "test_every": 6,
    "num_test_episodes": 8,
}


def test_the_pace_comes_from_the_config() -> None:
    algo = make_agent("sac", **PACE).algo
    assert {name: getattr(algo, name) for name in PACE} == PACE


@pytest.mark.parametrize(("name", "value"), [(name, 1) for name in PACE])
def test_the_pace_can_be_changed(name: str, value: int) -> None:
    algo = make_agent("sac", **PACE).algo
    algo.update_algorithm_parameter(name, value)
    assert {key: getattr(algo, key) for key in PACE} == PACE | {name: value}


def test_an_unknown_parameter_warns_and_changes_nothing() -> None:
    algo = make_agent("sac").algo
    before = algo.config
    with pytest.warns(RecollectWarning, match=r"'gama'.*did you mean 'gamma'"):
        algo.update_algorithm_parameter("gama", 0.5)
    assert algo.config is before


def test_a_value_that_cannot_be_is_refused_and_changes_nothing() -> None:
    algo = make_agent("sac").algo
    before = algo.config
    with pytest.raises(ConfigError, match="gamma must be a number at least 0 and at most 1, got 2"):
        algo.update_algorithm_parameter("gamma", 2)
    assert algo.config is before


def test_a_new_learning_rate_takes_effect() -> None:
    agent = make_agent("sac")
    agent.algo.update_algorithm_parameter("policy_lr", 0.0)
    before = {name: weight.clone() for name, weight in agent.actor.named_parameters()}
    agent.algo.compute_gradients(make_batch(agent))
    agent.algo.apply_gradients()
    moved = {name.split(".")[0] for name, weight in agent.actor.named_parameters() if (weight != before[name]).any()}
    assert moved == {"critics", "target_critics"}


def test_gradients_can_be_applied_elsewhere() -> None:
    worker, learner, alone = make_agent("sac"), make_agent("sac"), make_agent("sac")
    batch = make_batch(worker)
    gradients, _ = worker.algo.compute_gradients(batch)
    alone.algo.compute_gradients(batch)
    learner.algo.apply_gradients(gradients)
    alone.algo.apply_gradients()
    for ours, theirs in zip(learner.actor.parameters(), alone.actor.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert learner.algo.num_updates == 1
    assert worker.algo.num_updates == 0


def test_weights_can_be_set() -> None:
    agent, other = make_agent("sac"), make_agent("sac", seed=5)
    agent.algo.set_weights(other.actor.state_dict())
    for ours, theirs in zip(agent.actor.parameters(), other.actor.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_of_each_network_are_limited() -> None:
    agent = make_agent("sac", max_grad_norm=1e-3)
    gradients, info = agent.algo.compute_gradients(make_batch(agent))
    critics = gradients[: len(agent.actor.critic_parameters())]
    norm = torch.stack([gradient.norm() for gradient in critics]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-2)
    assert info[keys.ALGORITHM]["grad_norm_critic"] > 1e-3


@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
def test_a_loss_that_is_not_finite_is_named_and_nothing_moves(max_grad_norm: float | None) -> None:
    agent = make_agent("sac", max_grad_norm=max_grad_norm)
    batch = make_batch(agent)
    batch[keys.REWARD][0] = float("nan")
    with pytest.raises(NotFiniteError, match=r"loss_q of SAC \(continuous\) is nan at update 0"):
        agent.algo.compute_gradients(batch)
    assert all(weight.isfinite().all() for weight in agent.actor.parameters())


def test_info_has_numbers_and_the_errors() -> None:
    agent = make_agent("sac")
    _, info = agent.algo.compute_gradients(make_batch(agent))
    errors = info[keys.ALGORITHM].pop(keys.ERRORS)
    assert isinstance(errors, torch.Tensor)
    assert all(isinstance(value, float) for value in info[keys.ALGORITHM].values())
    assert {"loss_q", "loss_pi", "temperature"} <= info[keys.ALGORITHM].keys()


def test_factory_is_frozen_readable_and_survives_pickling() -> None:
    factory = SAC.create_factory(gamma=0.9, critic_lr=1e-3)
    assert repr(factory) == "AlgorithmFactory(SAC, gamma=0.9, critic_lr=0.001)"
    copy = pickle.loads(pickle.dumps(factory))
    assert copy == factory == AlgorithmFactory(SAC, SACConfig(gamma=0.9, critic_lr=1e-3))
    with pytest.raises(AttributeError):
        factory.config = SACConfig()  # type: ignore[misc]


def test_an_unknown_option_is_refused_with_the_closest() -> None:
    with pytest.raises(ConfigError, match=r"SAC \(continuous\) has no option 'critic_rl'; did you mean 'critic_lr'"):
        SAC.create_factory(critic_rl=1.0)


SPACES = (Discrete(2), Box(-1.0, 1.0, (1,)), MultiBinary(3), Text(3))
ADVISED = {"ddqn", "ddpg", "td3", "sac", "sac-discrete", "mpo", "ppo"}
able = {repr(space): [n for n in ALGORITHMS if isinstance(space, ALGORITHMS[n].action_spaces)] for space in SPACES}


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_action_space_that_does_not_fit_is_refused_with_who_can(name: str, space: Space[Any]) -> None:
    who_can = able[repr(space)]
    if name in who_can:
        assert ALGORITHMS[name].plan(space) == ALGORITHMS[name].config_class().plan(space)
        return
    with pytest.raises(ConfigError) as refused:
        ALGORITHMS[name].plan(space)
    problem, _, advice = str(refused.value).partition(". ")
    assert problem == f"{ALGORITHMS[name].title} cannot act in {space}"
    if not who_can:
        assert advice.startswith("No algorithm can; wrap the environment")
    else:
        advised = re.split(", | or ", advice.removeprefix("Use the algorithm ").removesuffix("."))
        assert advised == sorted(ADVISED.intersection(who_can))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if "num_critics" in ALGORITHMS[name].config_class.docs()])
def test_the_number_of_critics_is_an_option(name: str) -> None:
    agent = make_agent(name, num_critics=4)
    assert agent.actor.plan.num_critics == 4
    _, info = agent.algo.compute_gradients(make_batch(agent))
    assert info[keys.ALGORITHM]["loss_q"] > 0


def test_an_actor_of_another_plan_is_refused() -> None:
    agent = make_agent("sac")
    with pytest.raises(ConfigError, match=r"SAC \(continuous\) needs an actor of .*num_critics=5.* got one of .*=2"):
        SAC.create_factory(num_critics=5)("cpu", agent.actor, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"TD3 needs an actor of"):
        ALGORITHMS["td3"].create_factory()("cpu", agent.actor, None)


@pytest.mark.parametrize(("name", "value"), [("num_critics", 3), ("optimiser", "sgd"), ("optimiser_kwargs", {})])
def test_what_networks_and_optimiser_are_built_from_cannot_change(name: str, value: object) -> None:
    algo = make_agent("sac").algo
    before = algo.config
    with pytest.raises(ConfigError, match=f"{name} of SAC .* cannot change while it runs"):
        algo.update_algorithm_parameter(name, value)
    assert algo.config is before


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_agent_resumes_with_every_optimiser(name: str) -> None:
    agent, copy = (make_agent("sac", optimiser=name) for _ in range(2))
    for seed in range(5):
        agent.algo.compute_gradients(make_batch(agent, seed=seed))
        agent.algo.apply_gradients()
        if seed == 2:
            copy.algo.set_weights(agent.actor.state_dict())
            copy.algo.load_state(agent.algo.state())
        elif seed > 2:
            copy.algo.compute_gradients(make_batch(copy, seed=seed))
            copy.algo.apply_gradients()
    for ours, theirs in zip(agent.actor.parameters(), copy.actor.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class OwnFeatures(nn.Sequential):
    """Features of the user's own, with a layer that acts otherwise than it learns."""

    out_features = 4


def features_with(layer: Callable[[], nn.Module]) -> dict[str, Any]:
    return {"features": lambda space: OwnFeatures(nn.Linear(3, 4), layer())}


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if not ALGORITHMS[name].is_on_policy])
def test_features_of_ones_own_are_dropped_out_in_learning_alone(name: str) -> None:
    agent = make_agent(name, actor_options=features_with(lambda: nn.Dropout(0.5)))
    obs, rhs, done = agent.actor.actor_initial_states(torch.randn(5, 3))
    actions, losses = [], []
    for _ in range(2):
        actions.append(agent.algo.acting_step(obs, rhs, done, deterministic=True)[0])
        agent.algo.generator.manual_seed(1)
        losses.append(agent.algo.compute_gradients(make_batch(agent))[1][keys.ALGORITHM]["loss_q"])
    assert torch.equal(*actions)
    assert losses[0] != losses[1]


class OwnPolicy(nn.Sequential):
    """A policy of the user's own, with dropout."""

    def forward(self, features: torch.Tensor) -> SquashedGaussian:
        mean = super().forward(features)
        return SquashedGaussian(mean, torch.ones_like(mean))


class OwnCell(nn.Module):
    """A memory of the user's own, with dropout."""

    out_features = state_size = 3

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, features: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.dropout(features), state


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("sac", {"policy_head": lambda size, space, _: OwnPolicy(nn.Linear(size, space.shape[0]), nn.Dropout(0.5))}),
        ("ddqn", {"critic_head": lambda size, space, _: nn.Sequential(nn.Linear(size, int(space.n)), nn.Dropout(0.5))}),
        ("sac", {"memory": lambda *_: OwnCell()}),
    ],
    ids=["policy", "critic", "memory"],
)
def test_networks_of_ones_own_are_dropped_out_in_learning_alone(name: str, own: dict[str, Any]) -> None:
    actor = make_agent(name, actor_options=own).actor
    obs, rhs, done = actor.actor_initial_states(torch.randn(5, 3, generator=torch.Generator().manual_seed(1)))

    def compute() -> torch.Tensor:
        features = actor.encode(obs, rhs, done)[0]
        return actor.critics(features) if name == "ddqn" else actor.policy(features).mean

    acted = [compute() for _ in range(2)]
    with actor.learning(torch.Generator()):
        learned = [compute() for _ in range(2)]
    assert torch.equal(*acted)
    assert not torch.equal(*learned)
    assert torch.equal(compute(), acted[0])


def test_a_batch_norm_of_ones_own_acts_in_one_env_and_its_copy_follows() -> None:
    agent = make_agent("sac", actor_options=features_with(lambda: nn.BatchNorm1d(4)))
    obs, rhs, done = agent.actor.actor_initial_states(torch.randn(1, 3))
    agent.algo.compute_gradients(make_batch(agent))
    agent.algo.apply_gradients()
    agent.algo.acting_step(obs, rhs, done)
    norm, copied = (body.features[1] for body in (agent.actor.body, agent.actor.target_body) if body is not None)
    assert norm.running_mean.abs().sum() > 0
    assert torch.equal(copied.running_mean, norm.running_mean)
