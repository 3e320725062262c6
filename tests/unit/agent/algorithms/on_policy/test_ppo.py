"""PPO: what it keeps as it acts, its gradients, and how an update stage goes."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from recollect import keys
from recollect.agent.actors.spaces import map_observation
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.algorithms.on_policy.ppo import PPO, PPOConfig
from recollect.agent.storages import ON_POLICY_STORAGES
from recollect.errors import ConfigError, NotFiniteError
from tests.unit.agent.algorithms.on_policy.agents import (
    ACTION_SPACES,
    FLAT,
    NESTED,
    NUM_ENVS,
    Agent,
    batches_of,
    collect,
    draw_observations,
    make_agent,
)

MEMORIES = [None, "gru", "lstm"]
each_space = pytest.mark.parametrize("space", ACTION_SPACES.values(), ids=ACTION_SPACES)
each_memory = pytest.mark.parametrize("memory", MEMORIES)
each_storage = pytest.mark.parametrize("storage", ON_POLICY_STORAGES)


def learn(agent: Agent) -> list[dict[str, float]]:
    """Run the update stage of what is stored; returns what is known of each mini-batch."""
    infos = []
    for batch in batches_of(agent):
        _, info = agent.algo.compute_gradients(batch, grads_to_cpu=False)
        agent.storage.after_gradients(batch, info)
        agent.algo.apply_gradients()
        infos.append(info[keys.ALGORITHM])
    return infos


@each_storage
@each_memory
@each_space
def test_the_first_mini_batch_sees_the_policy_that_acted(
    space: gym.Space[Any], memory: str | None, storage: str
) -> None:
    agent = make_agent(space, memory=memory, storage=storage, num_mini_batch=2, num_epochs=2)
    collect(agent)
    first, *_, last = learn(agent)
    assert first["kl"] == pytest.approx(0.0, abs=1e-6)
    assert first["clip_fraction"] == 0.0
    assert last["kl"] > 1e-5


@each_memory
def test_short_sequences_begin_with_the_states_that_were_acted_with(memory: str | None) -> None:
    agent = make_agent(Discrete(3), memory=memory, store_options={"sequence_length": 5}, num_mini_batch=1)
    collect(agent)
    assert learn(agent)[0]["kl"] == pytest.approx(0.0, abs=1e-6)


@each_memory
def test_nested_observations(memory: str | None) -> None:
    agent = make_agent(Discrete(3), obs_space=NESTED, memory=memory)
    collect(agent)
    assert learn(agent)[0]["kl"] == pytest.approx(0.0, abs=1e-6)


@each_memory
def test_statistics_that_moved_while_acting_do_not_count_as_a_change_of_policy(memory: str | None) -> None:
    agent = make_agent(Discrete(3), memory=memory, normalise=True, num_mini_batch=1)
    collect(agent)
    # The weights of hidden states went with the older statistics, so that only a bound holds with memory.
    assert learn(agent)[0]["kl"] == pytest.approx(0.0, abs=1e-6 if memory is None else 1e-3)


@each_space
def test_acting_tells_value_and_log_probability(space: gym.Space[Any]) -> None:
    agent = make_agent(space)
    obs, rhs, done = agent.actor.actor_initial_states(draw_observations(FLAT, 1)[0])
    action, clipped, _, other = agent.algo.acting_step(obs, rhs, done)
    features, _ = agent.actor.encode(agent.actor.to_tensors(obs), rhs, done)
    assert agent.actor.policy is not None
    torch.testing.assert_close(other[keys.LOG_PROB], agent.actor.policy(features).log_prob(action))
    torch.testing.assert_close(other[keys.VALUE], agent.actor.critics(features))
    assert other[keys.VALUE].shape == other[keys.LOG_PROB].shape == (NUM_ENVS, 1)
    if isinstance(space, Box):
        assert (clipped.abs() <= 2.0).all()


def test_deterministic_acting_draws_nothing() -> None:
    agent = make_agent(ACTION_SPACES["box"])
    obs, rhs, done = agent.actor.actor_initial_states(draw_observations(FLAT, 1)[0])
    before = agent.actor.generator.get_state()
    actions = [agent.algo.acting_step(obs, rhs, done, deterministic=True)[0] for _ in range(2)]
    torch.testing.assert_close(*actions)
    assert torch.equal(agent.actor.generator.get_state(), before)


@pytest.mark.parametrize("options", [{}, {"value_clip": 0.05}, {"normalise_advantages": False}, {"anneal_clip": True}])
@pytest.mark.parametrize("memory", [None, "gru"])
def test_losses_and_gradients_are_those_of_the_definition(memory: str | None, options: dict[str, Any]) -> None:
    rates = {"clip": 0.1, "entropy_weight": 0.1, "value_weight": 0.7, "anneal_steps": 72, "max_grad_norm": None}
    batches = {"num_mini_batch": 1, "num_epochs": 4}
    agent = make_agent(Discrete(3), memory=memory, feature_sizes=(5,), **batches, **rates, **options)
    collect(agent)
    *before, batch = batches_of(agent)
    for each in before:
        agent.algo.compute_gradients(each)
        agent.algo.apply_gradients()
    # Ratios and changes of values on both sides of the clips.
    shifts = torch.linspace(-0.5, 0.5, batch[keys.LOG_PROB].numel()).view_as(batch[keys.LOG_PROB])
    batch |= {key: batch[key] + shifts for key in (keys.LOG_PROB, keys.VALUE)}
    # Three of the eight updates within `anneal_steps` are done.
    clip = 0.1 * (5 / 8 if "anneal_clip" in options else 1.0)
    wanted = expected_losses(agent, batch, clip)
    loss = wanted["loss_pi"] + 0.7 * wanted["loss_v"] - 0.1 * wanted["entropy"]
    gradients = torch.autograd.grad(loss, list(agent.actor.parameters()))
    _, info = agent.algo.compute_gradients(batch)
    torch.testing.assert_close([weight.grad for weight in agent.actor.parameters()], [*gradients], rtol=1e-4, atol=1e-5)
    for key, value in wanted.items():
        assert info[keys.ALGORITHM][key] == pytest.approx(value.item(), rel=1e-4, abs=1e-6), key


def expected_losses(agent: Agent, batch: dict[str, Any], clip: float) -> dict[str, torch.Tensor]:
    config = agent.algo.config
    if agent.actor.is_recurrent:
        features = features_written_out(agent, batch)
        is_step = batch[keys.MASK][..., 0].bool()
        batch = {
            key: batch[key][is_step] for key in (keys.ACTION, keys.LOG_PROB, keys.ADVANTAGE, keys.VALUE, keys.RETURN)
        }
    else:
        none = torch.zeros(len(batch[keys.OBS]), 1)
        features = agent.actor.body(batch[keys.OBS], none, none)[0]
    policy = torch.distributions.Categorical(logits=agent.actor.policy(features).logits)
    log_ratio = policy.log_prob(batch[keys.ACTION][:, 0]) - batch[keys.LOG_PROB][:, 0]
    ratio, advantage = log_ratio.exp(), batch[keys.ADVANTAGE][:, 0]
    if config.normalise_advantages:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    value, old, target = agent.actor.critics(features), batch[keys.VALUE], batch[keys.RETURN]
    error = (value - target) ** 2
    if config.value_clip is not None:
        error = torch.max(error, (old + (value - old).clip(-0.05, 0.05) - target) ** 2)
    return {
        "loss_pi": -torch.min(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage).mean(),
        "loss_v": error.mean(),
        "entropy": policy.entropy().mean(),
        "kl": (ratio - 1 - log_ratio).mean(),
        "clip_fraction": ((ratio - 1).abs() > clip).float().mean(),
    }


def test_padding_has_no_part_in_the_gradients() -> None:
    agent = make_agent(Discrete(3), memory="gru", num_mini_batch=1, store_options={"sequence_length": 5})
    collect(agent)
    batch = next(batches_of(agent))
    padding = batch[keys.MASK] == 0
    assert padding.any()
    wanted, _ = agent.algo.compute_gradients(batch)
    for key in (keys.ADVANTAGE, keys.RETURN, keys.VALUE, keys.LOG_PROB):
        batch[key] = torch.where(padding, 1e3, batch[key])
    found, _ = agent.algo.compute_gradients(batch)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("obs_space", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("memory", ["gru", "lstm"])
@pytest.mark.parametrize(("length", "overlap"), [(5, 2), (4, 3), (None, 4)])
def test_burn_in_brings_the_state_of_the_present_memory(
    length: int | None, overlap: int, memory: str, obs_space: gym.Space[Any]
) -> None:
    options = {"memory": memory, "overlap": overlap, "store_options": {"sequence_length": length}}
    rates = {"clip": 0.1, "entropy_weight": 0.1, "value_weight": 0.7, "max_grad_norm": None}
    agent = make_agent(Discrete(3), obs_space=obs_space, num_mini_batch=1, num_epochs=2, **rates, **options)
    collect(agent)
    batch, later = batches_of(agent)
    agent.algo.compute_gradients(batch)
    agent.algo.apply_gradients()
    assert later[keys.MASK].sum() == 36
    wanted = expected_losses(agent, later, clip=0.1)
    loss = wanted["loss_pi"] + 0.7 * wanted["loss_v"] - 0.1 * wanted["entropy"]
    gradients = torch.autograd.grad(loss, list(agent.actor.parameters()))
    agent.algo.compute_gradients(later)
    torch.testing.assert_close([weight.grad for weight in agent.actor.parameters()], [*gradients], rtol=1e-4, atol=1e-5)


def features_written_out(agent: Agent, batch: dict[str, Any]) -> torch.Tensor:
    """Features of the steps to learn from, one after the other; no gradient goes back into those before them."""
    features = []
    for row, mask in enumerate(batch[keys.MASK][:, :, 0].tolist()):
        state = batch[keys.RHS][row : row + 1]
        for step in range(mask.index(1.0) + int(sum(mask))):
            obs = map_observation(lambda values: values[row : row + 1, step], batch[keys.OBS])  # noqa: B023
            encoded, state = agent.actor.encode(obs, state, batch[keys.DONE][row : row + 1, step])
            if mask[step]:
                features.append(encoded)
            else:
                state = state.detach()
    return torch.cat(features)


def test_burn_in_keeps_the_policy_that_acted() -> None:
    agent = make_agent(Discrete(3), memory="gru", overlap=4, num_mini_batch=1)
    collect(agent)
    assert learn(agent)[0]["kl"] == pytest.approx(0.0, abs=1e-6)


@each_memory
def test_next_values_continue_from_the_state_after_the_step(memory: str | None) -> None:
    agent = make_agent(Discrete(3), memory=memory)
    samples = collect(agent)
    batch = {
        key: torch.cat([torch.as_tensor(sample[key]) for sample in samples])
        for key in (keys.OBS, keys.RHS, keys.DONE, keys.NEXT_OBS, keys.REWARD)
    }
    found = agent.algo.next_values(batch).view(len(samples), NUM_ENVS, 1)
    for number, sample in enumerate(samples):
        _, rhs = agent.actor.encode(torch.as_tensor(sample[keys.OBS]), sample[keys.RHS], sample[keys.DONE])
        next_obs, no_ends = torch.as_tensor(sample[keys.NEXT_OBS]), torch.zeros(NUM_ENVS, 1)
        features, _ = agent.actor.encode(next_obs, rhs, no_ends)
        torch.testing.assert_close(found[number], agent.actor.critics(features))


def test_a_policy_that_has_moved_too_far_ends_the_stage() -> None:
    agent = make_agent(Discrete(3), target_kl=1e-4, num_mini_batch=2, num_epochs=10)
    collect(agent)
    infos = learn(agent)
    assert 1 < len(infos) < 20
    assert [info[keys.EARLY_STOP] for info in infos] == [0.0] * (len(infos) - 1) + [1.0]
    assert infos[-1]["kl"] > 1e-4


def test_the_mini_batch_that_ends_the_stage_gives_no_gradients() -> None:
    agent = make_agent(Discrete(3), target_kl=0.0, num_mini_batch=1, num_epochs=3)
    collect(agent)
    batch, later, _ = batches_of(agent)
    agent.algo.compute_gradients(batch)
    agent.algo.apply_gradients()
    grads, info = agent.algo.compute_gradients(later)
    assert info[keys.ALGORITHM][keys.EARLY_STOP] == 1.0
    assert all(grad is None for grad in grads)


def largest_change(agent: Agent) -> float:
    """How far one update moves a weight at most: Adam's first step is the learning rate."""
    before = [weight.detach().clone() for weight in agent.actor.parameters()]
    for weight in agent.actor.parameters():
        weight.grad = torch.ones_like(weight)
    agent.algo.apply_gradients()
    return max(
        float((weight.detach() - old).abs().max()) for weight, old in zip(agent.actor.parameters(), before, strict=True)
    )


def test_learning_rate_and_clip_fall_to_zero() -> None:
    # 12 steps of 3 envs make a stage of 2 · 2 updates: 72 steps are two stages.
    agent = make_agent(Discrete(3), anneal_steps=72, anneal_clip=True, num_mini_batch=2, num_epochs=2)
    changes, clips = [], []
    for _ in range(9):
        clips.append(agent.algo.clip)
        changes.append(largest_change(agent))
    left = [1.0 - number / 8 for number in range(9)]
    assert changes == pytest.approx([0.01 * share for share in left], rel=1e-2, abs=1e-9)
    assert clips == pytest.approx([0.2 * share for share in left])


@pytest.mark.parametrize("options", [{"num_mini_batch": 8, "memory": "gru"}, {"target_kl": 1e-4}])
def test_stages_that_are_cut_short_anneal_as_far_as_others(options: dict[str, Any]) -> None:
    agent = make_agent(Discrete(3), anneal_steps=72, anneal_clip=True, num_epochs=10, **options)
    for share in (0.5, 0.0):
        collect(agent)
        agent.algo.end_stages(len(learn(agent)))
        agent.storage.reset()
        assert agent.algo.clip == pytest.approx(0.2 * share)
    copy = make_agent(Discrete(3), anneal_steps=72, anneal_clip=True, num_epochs=10, **options)
    copy.algo.load_state(agent.algo.state())
    assert copy.algo.clip == 0.0


def test_annealing_counts_the_steps_of_all_workers() -> None:
    agent = make_agent(Discrete(3), anneal_steps=72, anneal_clip=True, num_mini_batch=2, num_epochs=2)
    agent.algo.num_learners = 2
    largest_change(agent)
    # 72 steps are one stage of two workers, of 4 updates.
    assert agent.algo.clip == pytest.approx(0.2 * 3 / 4)
    by_size = make_agent(Discrete(3), mini_batch_size=6).algo
    by_size.num_collectors = 3
    assert by_size.num_mini_batch == 18


def test_learning_rate_and_clip_stay_without_annealing() -> None:
    agent = make_agent(Discrete(3))
    assert [largest_change(agent) for _ in range(3)] == pytest.approx([0.01] * 3, rel=1e-2)
    assert agent.algo.clip == 0.2


def test_mini_batches_by_number_or_by_size() -> None:
    by_number = make_agent(Discrete(3), num_mini_batch=4).algo
    assert (by_number.num_mini_batch, by_number.mini_batch_size) == (4, 9)
    by_size = make_agent(Discrete(3), mini_batch_size=6).algo
    assert (by_size.num_mini_batch, by_size.mini_batch_size) == (6, 6)


def test_the_loss_must_be_finite() -> None:
    agent = make_agent(Discrete(3))
    collect(agent)
    batch = next(batches_of(agent))
    batch[keys.RETURN][0] = torch.nan
    with pytest.raises(NotFiniteError, match="loss_v of PPO is nan"):
        agent.algo.compute_gradients(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_steps": 10}, "start_steps must be 0"),
        ({"clip": 0.0}, "clip"),
        ({"entropy_weigth": 0.1}, "did you mean 'entropy_weight'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PPO.create_factory(**options)


def test_action_spaces_without_a_policy_are_refused() -> None:
    with pytest.raises(ConfigError, match="PPO cannot act in Tuple"):
        PPO.plan(gym.spaces.Tuple((Discrete(2), Discrete(2))))


def test_ppo_is_registered_as_on_policy() -> None:
    assert ALGORITHMS["ppo"] is PPO
    assert PPO.is_on_policy
    assert PPO.config_class is PPOConfig
    assert all(PPOConfig.docs().values())


@each_memory
def test_same_seed_same_weights(memory: str | None) -> None:
    weights = []
    for _ in range(2):
        agent = make_agent(ACTION_SPACES["box"], memory=memory)
        collect(agent)
        learn(agent)
        weights.append(torch.cat([weight.detach().flatten() for weight in agent.actor.parameters()]))
    assert torch.equal(*weights)


def test_a_better_action_becomes_more_likely() -> None:
    agent = make_agent(Discrete(3), num_epochs=1, num_mini_batch=1)
    (batch,) = bandit_batch(agent, rewarded=2)
    before = probability(agent, 2)
    agent.algo.compute_gradients(batch)
    agent.algo.apply_gradients()
    assert probability(agent, 2) > before


def bandit_batch(agent: Agent, rewarded: int) -> list[dict[str, Any]]:
    """One batch of steps that each end an episode, rewarded for one action only."""
    samples = collect(agent, share_of_ends=1.0)
    agent.storage.reset()
    for sample in samples:
        sample[keys.REWARD] = (np.asarray(sample[keys.ACTION]) == rewarded).astype(np.float32)
        sample[keys.NEXT_TERMINATED] = np.ones((NUM_ENVS, 1), bool)
        agent.storage.insert_transition(sample)
    agent.storage.before_gradients()
    return list(agent.storage.generate_batches(1, 1))


def probability(agent: Agent, action: int) -> float:
    obs = torch.as_tensor(draw_observations(FLAT, 1)[0])
    with torch.no_grad():
        return float(agent.actor.policy(obs).probs[:, action].mean())  # type: ignore[misc]
