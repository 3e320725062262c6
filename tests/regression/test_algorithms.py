"""Known faults of earlier systems: weights that are lost, a double network that is none, ends that are confused."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import NStepReplayBuffer, PERBuffer
from tests.samples import make_slice
from tests.unit.agent.algorithms.off_policy.agents import OFF_POLICY, Agent, make_agent, make_batch

each_algorithm = pytest.mark.parametrize("name", OFF_POLICY)


def fill(agent: Agent, storage: PERBuffer | NStepReplayBuffer, **ends: tuple[int, ...]) -> None:
    """Store twenty steps of one env."""
    steps = make_slice(20, **ends)
    rng = np.random.default_rng(0)
    steps[keys.OBS] = rng.standard_normal((20, 1, 3)).astype(np.float32)
    steps[keys.NEXT_OBS] = rng.standard_normal((20, 1, 3)).astype(np.float32)
    steps[keys.ACTION] = agent.actor.random_actions(20).numpy()[:, None]
    storage.insert_data_slice(steps)


@each_algorithm
def test_priorities_follow_the_errors_of_an_update(name: str) -> None:
    agent = make_agent(name)
    storage = PERBuffer.create_factory(20, alpha=0.6, default_error=50, seed=0)(
        "cpu", agent.actor, agent.algo, SimpleNamespace(num_envs=1)
    )
    fill(agent, storage)
    batch = storage.sample(8)
    assert keys.PER_WEIGHTS in batch
    _, info = agent.algo.compute_gradients(batch)
    storage.after_gradients(batch, info)
    assert storage.tree is not None
    drawn = np.unique(batch[keys.IDXS].numpy())
    assert keys.PER_WEIGHTS in batch
    assert (storage.tree.errors[drawn] != 50).all()
    assert (np.delete(storage.tree.errors[:20], drawn) == 50).all()


# CrossQ normalises a batch with what was seen next, so that one row's next observation moves the values of all.
@pytest.mark.parametrize("name", sorted(set(OFF_POLICY) - {"crossq"}))
def test_values_behind_a_truncation_count_and_behind_a_termination_do_not(name: str) -> None:
    agent = make_agent(name)
    storage = NStepReplayBuffer.create_factory(20, seed=0)("cpu", agent.actor, agent.algo, SimpleNamespace(num_envs=1))
    fill(agent, storage, terminated=(5,), truncated=(11,))
    batch = storage.sample(200)
    errors = errors_of(agent, batch)
    changed = errors_of(agent, batch | {keys.NEXT_OBS: batch[keys.NEXT_OBS] + 1.0})
    # Probabilities that do not count still add up to one only as far as floats do.
    is_moved = ~torch.isclose(errors, changed, rtol=0.0, atol=1e-5)
    moved = {int(step): bool(moves) for step, moves in zip(batch[keys.IDXS], is_moved, strict=True)}
    assert moved[11]
    assert not moved[5]


def errors_of(agent: Agent, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    agent.algo.generator.manual_seed(0)
    _, info = agent.algo.compute_gradients(batch)
    errors: torch.Tensor = info[keys.ALGORITHM][keys.ERRORS]
    return errors


def test_ddqn_can_be_made_and_acts_for_each_env() -> None:
    agent = make_agent("ddqn", initial_epsilon=0.0, final_epsilon=0.0)
    obs, rhs, done = agent.actor.actor_initial_states(torch.eye(3).repeat(4, 1) * 5)
    action, *_ = agent.algo.acting_step(obs, rhs, done)
    assert action.shape == (12, 1)
    assert torch.equal(action[:, 0], agent.actor.critics(obs)[0].argmax(-1))


def test_ddqn_is_double() -> None:
    agent = make_agent("ddqn")
    batch = make_batch(agent)
    critics, target_critics = agent.actor.critics, agent.actor.target_critics
    assert target_critics is not None
    with torch.no_grad():
        for weight in target_critics.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        best = critics(batch[keys.NEXT_OBS])[0].argmax(-1, keepdim=True)
        values = target_critics(batch[keys.NEXT_OBS])[0]
        target = batch[keys.REWARD] + batch[keys.DISCOUNT] * values.gather(-1, best)
        expected = (target - critics(batch[keys.OBS])[0].gather(-1, batch[keys.ACTION])).abs()
    assert (values.gather(-1, best) != values.amax(-1, keepdim=True)).any()
    torch.testing.assert_close(errors_of(agent, batch), expected)
