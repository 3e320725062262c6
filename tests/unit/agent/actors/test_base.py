from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from recollect.agent.actors import Actor
from tests.samples import ALIGNMENT
from tests.unit.agent.actors.actors import KINDS, make_actor

NUM_ENVS = 3
DICT = Dict({"position": Box(-1, 1, (2,), np.float64), "goal": Box(-1, 1, (1,), np.float32)})


def _observation(space: Any, *lead: int) -> Any:
    if isinstance(space, Dict):
        return {name: _observation(part, *lead) for name, part in space.spaces.items()}
    return np.random.default_rng(0).normal(size=(*lead, *space.shape)).astype(space.dtype)


def _act(actor: Actor, obs: Any) -> Any:
    obs, rhs, done = actor.actor_initial_states(obs)
    features, rhs = actor.encode(actor.to_tensors(obs), rhs, done)
    if actor.policy is None:
        return actor.critics(features)[0].argmax(-1, keepdim=True), rhs
    return actor.policy(features).sample(actor.generator), rhs


@pytest.mark.parametrize("memory", [None, "gru", "lstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_actor_acts_in_its_space(kind: str, memory: Any) -> None:
    actor = make_actor(kind, DICT, memory=memory, memory_size=5)
    action, rhs = _act(actor, _observation(DICT, NUM_ENVS))
    in_env = actor.to_env(action).detach().numpy()
    assert rhs.shape == (NUM_ENVS, actor.recurrent_size)
    assert all(actor.action_space.contains(_row(actor, row)) for row in in_env)
    random = actor.random_actions(NUM_ENVS)
    assert (random.shape, random.dtype) == (action.shape, action.dtype)


def _row(actor: Actor, row: Any) -> Any:
    space = actor.action_space
    return row.reshape(space.shape).astype(space.dtype) if space.shape else space.dtype.type(row.item())


@pytest.mark.parametrize(("memory", "is_recurrent", "size"), [(None, False, 1), ("gru", True, 5), ("lstm", True, 10)])
def test_what_a_storage_asks_of_an_actor(memory: Any, is_recurrent: bool, size: int) -> None:
    overlap = 3 if memory else 0
    actor = make_actor("ddqn", memory=memory, memory_size=5, sequence_overlap=overlap)
    assert (actor.is_recurrent, actor.recurrent_size, actor.sequence_overlap) == (is_recurrent, size, overlap)
    obs = _observation(actor.obs_space, NUM_ENVS)
    same, rhs, done = actor.actor_initial_states(obs)
    assert same is obs
    assert torch.equal(rhs, torch.zeros(NUM_ENVS, size))
    assert torch.equal(done, torch.ones(NUM_ENVS, 1))


def test_bytes_stay_bytes_until_they_are_inside() -> None:
    actor = make_actor("ddqn", Box(0, 255, (1, 36, 36), np.uint8))
    obs = actor.to_tensors(np.zeros((2, 1, 36, 36), np.uint8))
    assert obs.dtype == torch.uint8
    features, _ = actor.encode(obs, torch.zeros(2, 1), torch.ones(2, 1))
    assert features.dtype == torch.float32


def test_what_networks_take_as_it_is_is_aligned_on_its_way_in() -> None:
    actor = make_actor("ddqn")
    obs = _observation(actor.obs_space, 2)
    memory = np.empty(obs.size + 2 * ALIGNMENT, np.float32)
    for start in range(ALIGNMENT):
        given = memory[start : start + obs.size].reshape(obs.shape)
        given[:] = obs
        found = actor.to_tensors(given)
        assert torch.equal(found, torch.from_numpy(obs))
        assert found.data_ptr() % ALIGNMENT == 0


def test_other_arrays_are_not_copied_on_their_way_in() -> None:
    obs = np.zeros((2, 1, 36, 36), np.uint8)
    assert make_actor("ddqn", Box(0, 255, (1, 36, 36), np.uint8)).to_tensors(obs).data_ptr() == obs.ctypes.data


@pytest.mark.parametrize(
    ("kind", "has_policy", "has_critics"),
    [("sac", False, True), ("td3", True, True), ("ddqn", False, True), ("ppo-box", False, False)],
)
def test_target_networks_are_those_of_the_plan(kind: str, has_policy: bool, has_critics: bool) -> None:
    for memory in (None, "gru"):
        actor = make_actor(kind, memory=memory)
        assert (actor.target_policy is not None) is has_policy
        assert (actor.target_critics is not None) is has_critics
        assert (actor.target_body is not None) is (memory is not None and (has_policy or has_critics))


def test_target_networks_move_and_nothing_else_does() -> None:
    actor = make_actor("td3", memory="gru")
    before = {name: tensor.clone() for name, tensor in actor.state_dict().items()}
    for weight in (*actor.policy_parameters(), *actor.critic_parameters()):
        weight.data += 1.0
    actor.update_targets(0.25)
    for name, tensor in actor.state_dict().items():
        torch.testing.assert_close(tensor, before[name] + (0.25 if name.startswith("target_") else 1.0))


def test_the_target_body_encodes_when_asked() -> None:
    actor = make_actor("td3", memory="gru", memory_size=5)
    obs = torch.randn(2, 3, 3)
    state, done = torch.zeros(2, 5), torch.zeros(2, 3, 1)
    for weight in actor.body.parameters():
        weight.data += 0.3
    online, delayed = (actor.unroll(obs, state, done, target=target)[0] for target in (False, True))
    assert not torch.allclose(online, delayed)
    for features, target in ((online, False), (delayed, True)):
        first, _ = actor.encode(obs[:, 0], state, done[:, 0], target=target)
        torch.testing.assert_close(features[:, 0], first)
    assert online.requires_grad
    assert not delayed.requires_grad


def test_parameters_are_those_of_policy_and_of_critics_with_the_body() -> None:
    actor = make_actor("sac", memory="gru")
    names = {id(weight): name for name, weight in actor.named_parameters()}
    of_policy = {names[id(weight)].split(".")[0] for weight in actor.policy_parameters()}
    of_critics = {names[id(weight)].split(".")[0] for weight in actor.critic_parameters()}
    assert (of_policy, of_critics) == ({"policy"}, {"critics", "body"})
    trained = [weight for weight in actor.parameters() if weight.requires_grad]
    assert len(trained) == len(actor.policy_parameters()) + len(actor.critic_parameters())


def test_an_actor_without_policy_has_no_policy_parameters() -> None:
    assert make_actor("ddqn").policy_parameters() == []


def test_actions_depend_on_the_seed_alone() -> None:
    state = torch.get_rng_state()
    actor, obs = make_actor("sac"), _observation(make_actor("sac").obs_space, NUM_ENVS)
    draws = []
    for seed in (1, 1, 2):
        actor.seed(seed)
        draws.append(torch.cat((_act(actor, obs)[0], actor.random_actions(NUM_ENVS))))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_observations_are_normalised_on_their_way_in() -> None:
    actor = make_actor("sac", normalise_observations=True)
    rows = 50 + 3 * np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    actor.observe(rows, np.zeros((200, 1), np.float32), np.zeros((200, 1), bool))
    features, _ = actor.encode(actor.to_tensors(rows), torch.zeros(200, 1), torch.zeros(200, 1))
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-4)
    sequences, _ = actor.unroll(torch.from_numpy(rows).view(20, 10, 3), torch.zeros(20, 1), torch.zeros(20, 10, 1))
    torch.testing.assert_close(sequences.reshape(200, 3), features)


def test_rows_that_are_no_step_are_not_learned_from() -> None:
    options = {"normalise_observations": True, "normalise_rewards": True}
    actor, other = make_actor("sac", **options), make_actor("sac", **options)
    rows, reward = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.ones((4, 1), np.float32)
    skip = np.array([[False], [True], [False], [True]])
    actor.observe(rows, reward, skip, skip=skip)
    other.observe(rows[::2], reward[::2], skip[::2])
    for ours, expected in zip(actor.buffers(), other.buffers(), strict=True):
        assert torch.equal(ours, expected)


def test_rewards_are_normalised_only_if_asked_for() -> None:
    reward, no_ends = np.array([[10.0], [-10.0]], np.float32), np.zeros((2, 1), bool)
    for is_on, expected in ((False, 5.0), (True, 0.5)):
        actor = make_actor("sac", normalise_rewards=is_on)
        actor.observe(np.zeros((2, 3), np.float32), reward, no_ends, gamma=0.9)
        assert actor.normalise_reward(torch.tensor([[5.0]])).item() == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["td3", "ppo-multi-discrete"])
def test_a_saved_actor_acts_as_before(tmp_path: Path, kind: str) -> None:
    options = {"memory": "lstm", "normalise_observations": True, "layer_norm": True}
    saved, loaded = make_actor(kind, seed=1, **options), make_actor(kind, seed=2, **options)
    obs = _observation(saved.obs_space, NUM_ENVS)
    saved.observe(obs, np.zeros((NUM_ENVS, 1)), np.zeros((NUM_ENVS, 1)))
    saved.save(tmp_path / "actor.safetensors")
    loaded.load(tmp_path / "actor.safetensors")
    for actor in (saved, loaded):
        actor.seed(0)
    for ours, expected in zip(_act(loaded, obs), _act(saved, obs), strict=True):
        assert torch.equal(ours, expected)
