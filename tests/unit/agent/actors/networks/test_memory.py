from typing import Any

import pytest
import torch
from torch import Tensor

from recollect.agent.actors.networks.memory import MEMORIES

NUM_SEQ, LENGTH, FEATURES, SIZE = 5, 12, 3, 4


def _memory(kind: Any) -> tuple[Any, int]:
    return MEMORIES[kind](FEATURES, SIZE), SIZE * (2 if kind == "lstm" else 1)


def _step_by_step(memory: Any, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
    outputs, states = [], []
    for step in range(features.shape[1]):
        output, state = memory(features[:, step], state, done[:, step])
        outputs.append(output)
        states.append(state)
    return torch.stack(outputs, 1), torch.stack(states, 1)


@pytest.mark.parametrize("share_of_beginnings", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_sequences_give_what_single_steps_give(kind: str, share_of_beginnings: float) -> None:
    memory, state_size = _memory(kind)
    features, state = torch.randn(NUM_SEQ, LENGTH, FEATURES), torch.randn(NUM_SEQ, state_size)
    done = (torch.rand(NUM_SEQ, LENGTH, 1) < share_of_beginnings).float()
    outputs, states = memory.unroll(features, state, done)
    expected_outputs, expected_states = _step_by_step(memory, features, state, done)
    torch.testing.assert_close(outputs, expected_outputs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(states, expected_states, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("begin", range(4))
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_single_beginning_is_seen_wherever_it_is(kind: str, begin: int) -> None:
    memory, state_size = _memory(kind)
    features, state, done = torch.randn(1, 4, FEATURES), torch.randn(1, state_size), torch.zeros(1, 4, 1)
    done[0, begin] = 1.0
    expected, _ = _step_by_step(memory, features, state, done)
    torch.testing.assert_close(memory.unroll(features, state, done)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradients_of_sequences_are_those_of_single_steps(kind: str) -> None:
    memory, state_size = _memory(kind)
    features, state = torch.randn(NUM_SEQ, LENGTH, FEATURES, requires_grad=True), torch.randn(NUM_SEQ, state_size)
    done = (torch.rand(NUM_SEQ, LENGTH, 1) < 0.2).float()
    inputs = [features, *memory.parameters()]
    fused = torch.autograd.grad(memory.unroll(features, state, done)[0].square().sum(), inputs)
    stepped = torch.autograd.grad(_step_by_step(memory, features, state, done)[0].square().sum(), inputs)
    for ours, expected in zip(fused, stepped, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_beginning_forgets_what_was_before(kind: str) -> None:
    memory, state_size = _memory(kind)
    features, done = torch.randn(2, FEATURES), torch.tensor([[1.0], [0.0]])
    states = torch.randn(2, state_size), torch.randn(2, state_size)
    first, second = (memory(features, state, done)[0] for state in states)
    assert torch.equal(first[0], second[0])
    assert not torch.allclose(first[1], second[1])


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_sequence_continues_from_its_state(kind: str) -> None:
    memory, state_size = _memory(kind)
    features, done = torch.randn(NUM_SEQ, LENGTH, FEATURES), torch.zeros(NUM_SEQ, LENGTH, 1)
    whole, states = memory.unroll(features, torch.zeros(NUM_SEQ, state_size), done)
    rest, _ = memory.unroll(features[:, 5:], states[:, 4], done[:, 5:])
    torch.testing.assert_close(rest, whole[:, 5:])


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_flags_may_be_bool(kind: str) -> None:
    memory, state_size = _memory(kind)
    features, state = torch.randn(NUM_SEQ, LENGTH, FEATURES), torch.randn(NUM_SEQ, state_size)
    done = torch.rand(NUM_SEQ, LENGTH, 1) < 0.3
    for ours, expected in zip(
        memory.unroll(features, state, done), memory.unroll(features, state, done.float()), strict=True
    ):
        assert torch.equal(ours, expected)
