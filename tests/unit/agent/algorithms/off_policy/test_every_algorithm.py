"""What holds for every off-policy algorithm."""

from typing import Any

import pytest
import torch

from recollect import keys
from recollect.agent.algorithms import ALGORITHMS
from recollect.errors import NotFiniteError
from tests.unit.agent.algorithms.off_policy.agents import (
    OFF_POLICY,
    Agent,
    critic_gradients,
    differ,
    gradients,
    make_agent,
    make_batch,
    space_of,
)

each_algorithm = pytest.mark.parametrize("name", OFF_POLICY)
WITH_TARGETS = [name for name in OFF_POLICY if ALGORITHMS[name].plan(space_of(name)).has_targets]
each_with_targets = pytest.mark.parametrize("name", WITH_TARGETS)
each_network = pytest.mark.parametrize("actor_options", [{}, {"feature_sizes": (5,)}], ids=["flat", "shared"])


def update(agent: Agent, num: int) -> None:
    for number in range(num):
        agent.algo.compute_gradients(make_batch(agent, seed=number))
        agent.algo.apply_gradients()


@each_algorithm
def test_rows_of_weight_zero_have_no_part_in_the_gradients(name: str) -> None:
    agent = make_agent(name, max_grad_norm=None)
    batch = make_batch(agent)
    changed = batch | {keys.REWARD: batch[keys.REWARD].clone()}
    changed[keys.REWARD][2] += 0.2
    weights = torch.ones(6, 1)
    weights[2] = 0.0
    kept = {keys.PER_WEIGHTS: weights}
    assert differ(gradients(agent, batch), gradients(agent, changed))
    assert not differ(gradients(agent, batch | kept), gradients(agent, changed | kept))


@each_algorithm
def test_weights_scale_the_loss(name: str) -> None:
    agent = make_agent(name, max_grad_norm=None)
    batch = make_batch(agent)
    plain = critic_gradients(agent, batch)
    tripled = critic_gradients(agent, batch | {keys.PER_WEIGHTS: torch.full((6, 1), 3.0)})
    for once, thrice in zip(plain, tripled, strict=True):
        torch.testing.assert_close(3.0 * once, thrice)


@each_with_targets  # without targets, CrossQ's next observations count in the statistics of a batch
def test_where_the_discount_is_zero_the_next_observation_does_not_count(name: str) -> None:
    agent = make_agent(name)
    batch = make_batch(agent)
    for row, counts in ((0, True), (5, False)):
        next_obs = batch[keys.NEXT_OBS].clone()
        next_obs[row] += 1.0
        changed = critic_gradients(agent, batch | {keys.NEXT_OBS: next_obs})
        assert differ(critic_gradients(agent, batch), changed) is counts


@each_algorithm
def test_no_flag_but_the_discount_decides_on_bootstrapping(name: str) -> None:
    agent = make_agent(name)
    batch = make_batch(agent)
    ends = dict.fromkeys((keys.NEXT_DONE, keys.NEXT_TERMINATED, keys.DONE), torch.ones(6, 1))
    assert not differ(gradients(agent, batch), gradients(agent, batch | ends))


@each_algorithm
def test_intrinsic_reward_counts_by_its_weight(name: str) -> None:
    agent = make_agent(name, intrinsic_weight=0.5)
    batch = make_batch(agent)
    more = batch | {keys.REWARD: batch[keys.REWARD] + 0.2}
    intrinsic = batch | {keys.IREWARD: torch.full((6, 1), 0.4)}
    assert differ(gradients(agent, batch), gradients(agent, intrinsic))
    assert not differ(gradients(agent, more), gradients(agent, intrinsic))


@pytest.mark.parametrize("key", [keys.OBS, keys.NEXT_OBS])
@each_algorithm
def test_observations_that_are_not_finite_are_refused_as_losses_are(name: str, key: str) -> None:
    agent = make_agent(name)
    batch = make_batch(agent)
    batch[key][0] = float("nan")
    with pytest.raises(NotFiniteError, match="is nan at update 0"):
        agent.algo.compute_gradients(batch)
    assert all(weight.isfinite().all() for weight in agent.actor.parameters())


@each_algorithm
def test_errors_come_back_one_for_each_row(name: str) -> None:
    agent = make_agent(name)
    batch = make_batch(agent)
    _, info = agent.algo.compute_gradients(batch)
    errors = info[keys.ALGORITHM][keys.ERRORS]
    assert errors.shape == (6, 1)
    assert (errors > 0).all()
    assert not errors.requires_grad


@each_algorithm
def test_updates_bring_the_values_to_the_rewards_where_nothing_follows(name: str) -> None:
    agent = make_agent(name, critic_lr=1e-2, actor_options={"hidden_sizes": (32,)})
    batch = make_batch(agent)
    batch[keys.DISCOUNT].zero_()
    sizes = []
    for _ in range(200):
        _, info = agent.algo.compute_gradients(batch)
        agent.algo.apply_gradients()
        sizes.append(float(info[keys.ALGORITHM][keys.ERRORS].mean()))
    assert sizes[-1] < 0.1 * sizes[0]


@each_network
@each_algorithm
def test_everything_that_is_trained_moves_and_targets_follow(name: str, actor_options: dict[str, Any]) -> None:
    agent = make_agent(name, actor_options=actor_options)
    before = {key: weight.clone() for key, weight in agent.actor.named_parameters()}
    update(agent, 2)
    moved = {key: (weight - before[key]).abs().max() for key, weight in agent.actor.named_parameters()}
    assert all(size > 0 for size in moved.values()), moved
    targets = [key for key in moved if key.startswith("target")]
    assert bool(targets) == (name in WITH_TARGETS)
    assert all(moved[key] < 0.1 * moved[key.removeprefix("target_")] for key in targets)


@each_algorithm
def test_the_policy_does_not_train_the_features_that_it_shares(name: str) -> None:
    rates = {"critic_lr": 0.0, "policy_lr": 1e-2}
    rates = {rate: value for rate, value in rates.items() if rate in ALGORITHMS[name].config_class.docs()}
    agent = make_agent(name, actor_options={"feature_sizes": (5,)}, **rates)
    before = [weight.clone() for weight in agent.actor.body.parameters()]
    update(agent, 3)
    for weight, old in zip(agent.actor.body.parameters(), before, strict=True):
        torch.testing.assert_close(weight, old)


@each_with_targets
def test_targets_follow_every_so_often(name: str) -> None:
    agent = make_agent(name, tau=1.0, target_update_every=4)
    weights = dict(agent.actor.named_parameters())
    targets = [key for key in weights if key.startswith("target_")]
    first = [weights[key].clone() for key in targets]
    update(agent, 3)
    assert not differ(first, [weights[key] for key in targets])
    update(agent, 1)
    followed = [weights[key.removeprefix("target_")] for key in targets]
    assert differ(first, followed)
    assert not differ(followed, [weights[key] for key in targets])


@each_algorithm
def test_same_seed_same_weights(name: str) -> None:
    left, right, other = make_agent(name), make_agent(name), make_agent(name, seed=2)
    for agent in (left, right, other):
        update(agent, 20)
        agent.algo.acting_step(torch.zeros(2, 3), torch.zeros(2, 1), torch.ones(2, 1))
    for ours, same in zip(left.actor.parameters(), right.actor.parameters(), strict=True):
        assert torch.equal(ours, same)
    assert differ(list(left.actor.parameters()), list(other.actor.parameters()))


@each_algorithm
def test_learning_draws_nothing_from_the_generator_that_acts(name: str) -> None:
    agent = make_agent(name)
    before = agent.actor.generator.get_state()
    update(agent, 2)
    assert torch.equal(agent.actor.generator.get_state(), before)
    learning = agent.algo.generator.get_state()
    agent.algo.acting_step(torch.zeros(2, 3), torch.zeros(2, 1), torch.ones(2, 1))
    assert torch.equal(agent.algo.generator.get_state(), learning)


@each_algorithm
def test_a_loaded_state_resumes_exactly(name: str) -> None:
    agent, copy = make_agent(name), make_agent(name)
    update(agent, 5)
    copy.algo.set_weights(agent.actor.state_dict())
    copy.algo.load_state(agent.algo.state())
    for each in (agent, copy):
        update(each, 5)
    for ours, theirs in zip(agent.actor.parameters(), copy.actor.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert agent.algo.state().keys() == copy.algo.state().keys()
    assert copy.algo.num_updates == 10


@each_algorithm
def test_actions_are_of_the_space(name: str) -> None:
    agent = make_agent(name)
    obs, rhs, done = agent.actor.actor_initial_states(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)))
    for deterministic in (True, False):
        action, clipped, _, _ = agent.algo.acting_step(obs, rhs, done, deterministic)
        space = agent.actor.action_space
        for row in clipped.numpy():
            assert space.contains(row if space.shape else row[0])
        assert action.dtype is (torch.float32 if space.shape else torch.int64)


@each_algorithm
def test_deterministic_actions_do_not_change(name: str) -> None:
    agent = make_agent(name)
    obs, rhs, done = agent.actor.actor_initial_states(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)))
    first, second = (agent.algo.acting_step(obs, rhs, done, deterministic=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    explored = agent.algo.acting_step(obs, rhs, done)[0]
    assert not torch.equal(first, explored)
    assert agent.algo.num_acted == 50


@pytest.mark.parametrize("noise", ["gaussian", "ou"])
@each_algorithm
def test_what_acts_aside_explores_and_leaves_exploration_as_it_is(name: str, noise: str) -> None:
    options = {"noise": noise} if "noise" in ALGORITHMS[name].config_class.docs() else {}
    agent, undisturbed = make_agent(name, **options), make_agent(name, **options)
    start = agent.actor.actor_initial_states(torch.zeros(50, 3))
    midway = (*start[:2], torch.zeros(50, 1))
    for each in (agent, undisturbed):
        each.algo.acting_step(*start)
    with agent.algo.preserving_exploration():
        first, second = (agent.algo.acting_step(*midway)[0] for _ in range(2))
    assert not torch.equal(first, second)
    assert agent.algo.num_acted == 50
    assert torch.equal(agent.algo.acting_step(*midway)[0], undisturbed.algo.acting_step(*midway)[0])
