"""Batches as rows, against a walk over the stored steps one by one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from recollect import keys
from recollect.agent.actors import Actor, ActorPlan, OffPolicyActor
from recollect.agent.algorithms.transitions import SequenceTransitions, Transitions, read_transitions
from recollect.agent.storages import PERBuffer
from tests.samples import make_slice, with_done

PLAN = ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2)
LENGTH, OVERLAP, N_STEP = 6, 2, 3
Batch = dict[str, Any]


def make_actor(*, nested: bool = False, **options: Any) -> Actor:
    """An actor whose target body differs from the trained one."""
    flat = Box(-np.inf, np.inf, (2,))
    space = Dict({"a": flat, "b": flat}) if nested else flat
    actor = OffPolicyActor.create_factory(space, Box(-1.0, 1.0, (1,)), PLAN, seed=1, **options)("cpu")
    other = OffPolicyActor.create_factory(space, Box(-1.0, 1.0, (1,)), PLAN, seed=2, **options)("cpu")
    if actor.target_body is not None:
        actor.target_body.load_state_dict(other.body.state_dict())
    return actor


def make_memory(memory: str | None, *, nested: bool = False) -> Actor:
    options = {"memory": memory, "memory_size": 4, "sequence_overlap": OVERLAP} if memory else {}
    return make_actor(nested=nested, **options)


def draw_sequences(actor: Actor, *, n_step: int = N_STEP, nested: bool = False) -> Batch:
    """Sequences of steps that end, in both ways, at other steps in each of two envs; hidden states are random."""
    steps = with_done(make_slice(40, num_envs=2, terminated={0: (7, 22), 1: (9,)}, truncated={0: (13,), 1: (3, 30)}))
    for key in (keys.OBS, keys.NEXT_OBS):
        steps[key] = 0.1 * steps[key]
        if nested:
            steps[key] = {"a": steps[key], "b": -steps[key]}
    if actor.is_recurrent:
        states = np.random.default_rng(0).standard_normal((40, 2, actor.recurrent_size))
        steps[keys.RHS] = states.astype(np.float32)
    storage = PERBuffer.create_factory(50, n_step, alpha=0.5, seed=1, sequence_length=LENGTH, sequence_overlap=OVERLAP)(
        "cpu", actor, SimpleNamespace(gamma=0.9), SimpleNamespace(num_envs=2)
    )
    storage.insert_data_slice(steps)
    batch = storage.sample(8 * LENGTH)
    batch[keys.PER_WEIGHTS] = torch.arange(1.0, 9.0)[:, None]
    return batch


def at(obs: Any, row: int, position: int) -> Any:
    return (
        {key: at(part, row, position) for key, part in obs.items()}
        if isinstance(obs, dict)
        else obs[row, position][None]
    )


def walk(actor: Actor, batch: Batch, row: int, *, target: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Features of a sequence's trained steps and of what followed their windows, one step at a time."""
    state = batch[keys.RHS][row][None] if keys.RHS in batch else torch.zeros(1, 1)
    features, states = [], []
    for position in range(LENGTH + N_STEP):
        done = batch[keys.DONE][row, position][None]
        feature, state = actor.encode(at(batch[keys.OBS], row, position), state, done, target=target)
        features.append(feature[0])
        states.append(state)
    following = []
    for position in range(OVERLAP, LENGTH):
        last = position + int(batch[keys.N_STEP][row, position]) - 1
        obs = at(batch[keys.NEXT_OBS], row, position)
        following.append(actor.encode(obs, states[last], torch.zeros(1, 1), target=target)[0][0])
    return features[OVERLAP:LENGTH], following


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("memory", [None, "gru", "lstm"])
def test_sequences_are_what_a_walk_over_their_steps_gives(memory: str | None, nested: bool) -> None:
    actor = make_memory(memory, nested=nested)
    batch = draw_sequences(actor, nested=nested)
    found = read_transitions(actor, batch)
    assert isinstance(found, SequenceTransitions)
    walks = [walk(actor, batch, row, target=False) for row in range(8)]
    delayed = [walk(actor, batch, row, target=True) for row in range(8)]
    torch.testing.assert_close(found.features, torch.stack([step for steps, _ in walks for step in steps]))
    following = torch.stack([step for _, steps in walks for step in steps])
    torch.testing.assert_close(found.next_features(target=False), following)
    torch.testing.assert_close(
        found.next_features(target=True), torch.stack([step for _, steps in delayed for step in steps])
    )
    if memory:
        assert not torch.allclose(found.next_features(target=True), following)
        assert len(batch[keys.N_STEP][:, OVERLAP:LENGTH].unique()) == N_STEP


def test_columns_of_sequences_are_those_of_the_trained_steps() -> None:
    actor = make_memory("gru")
    batch = draw_sequences(actor)
    found = read_transitions(actor, batch)
    rows = [(row, position) for row in range(8) for position in range(OVERLAP, LENGTH)]
    for key, column in ((keys.ACTION, found.action), (keys.REWARD, found.reward), (keys.DISCOUNT, found.discount)):
        torch.testing.assert_close(column, torch.stack([batch[key][place] for place in rows]))
    assert found.weights is not None
    assert found.weights[:, 0].tolist() == [row + 1.0 for row, _ in rows]


def test_errors_of_sequences_go_back_by_sequence() -> None:
    actor = make_memory("gru")
    found = read_transitions(actor, draw_sequences(actor))
    errors = found.errors(torch.arange(32.0)[:, None])
    assert errors.tolist() == torch.arange(32.0).view(8, 4).tolist()


def test_gradients_stop_at_the_steps_that_only_warm_up() -> None:
    actor = make_memory("gru")
    batch = draw_sequences(actor)
    batch[keys.OBS] = batch[keys.OBS].clone().requires_grad_()
    read_transitions(actor, batch).features.sum().backward()
    sizes = batch[keys.OBS].grad.abs().sum((0, 2))
    assert [bool(size > 0) for size in sizes] == [False] * 2 + [True] * 4 + [False] * 3


@pytest.mark.parametrize("n_step", [1, 2])
def test_no_gradient_flows_through_what_follows(n_step: int) -> None:
    actor = make_memory("gru")
    found = read_transitions(actor, draw_sequences(actor, n_step=n_step))
    assert found.features.requires_grad
    for target in (False, True):
        assert not found.next_features(target=target).requires_grad


def make_steps(num_rows: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(0)
    return {
        keys.OBS: torch.randn(num_rows, 2, generator=generator),
        keys.NEXT_OBS: torch.randn(num_rows, 2, generator=generator),
        keys.ACTION: torch.randn(num_rows, 1, generator=generator),
        keys.REWARD: torch.randn(num_rows, 1, generator=generator),
        keys.DISCOUNT: torch.full((num_rows, 1), 0.9),
    }


def test_steps_are_encoded_row_by_row() -> None:
    actor = make_actor(feature_sizes=(4,))
    batch = make_steps()
    found = read_transitions(actor, batch)
    assert type(found) is Transitions
    none = torch.zeros(5, 1)
    torch.testing.assert_close(found.features, actor.encode(batch[keys.OBS], none, none)[0])
    for target in (False, True):
        expected = actor.encode(batch[keys.NEXT_OBS], none, none, target=target)[0]
        torch.testing.assert_close(found.next_features(target=target), expected)
    assert not torch.allclose(found.next_features(target=True), found.next_features(target=False))


def test_a_body_without_weights_encodes_what_follows_once() -> None:
    found = read_transitions(make_actor(), make_steps())
    assert found.next_features(target=True) is found.next_features(target=False)


def test_means_are_weighted_where_draws_were() -> None:
    actor, batch = make_actor(), make_steps(2)
    losses = torch.tensor([[[1.0], [3.0]], [[5.0], [7.0]]])  # [num_critics, rows, 1]
    assert read_transitions(actor, batch).mean(losses) == 2.0 + 6.0
    weighted = read_transitions(actor, batch | {keys.PER_WEIGHTS: torch.tensor([[1.0], [0.5]])})
    assert weighted.mean(losses) == 1.25 + 4.25
    assert weighted.mean(losses[0]) == 1.25


def test_rewards_are_normalised_and_intrinsic_ones_added() -> None:
    actor = make_actor(normalise_rewards=True)
    for reward in (1.0, -7.0, 4.0):
        actor.observe(np.zeros((1, 2), np.float32), np.full((1, 1), reward), np.zeros((1, 1)))
    batch = make_steps() | {keys.IREWARD: torch.full((5, 1), 2.0)}
    found = read_transitions(actor, batch, intrinsic_weight=0.25)
    torch.testing.assert_close(found.reward, actor.normalise_reward(batch[keys.REWARD]) + 0.5)
    assert not torch.allclose(found.reward, batch[keys.REWARD] + 0.5)
