"""From the envs into a storage: what is sampled is what happened, for every vector kind."""

import numpy as np
import pytest

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.agent.storages import NStepReplayBuffer
from tests.unit.agent.envs.toys import ONE_STEP, VECTORS, ends_at, reward_of

NUM_ENVS = 3


@pytest.mark.parametrize("failing_step", [0, 7])
@pytest.mark.parametrize("vector", VECTORS)
def test_two_step_returns(vector: str, failing_step: int) -> None:
    kind, env_fn, mode = VECTORS[vector]
    options = {"failing_step": failing_step}
    factory, space, _ = VecEnv.create_factory(env_fn, options, NUM_ENVS, kind=kind, autoreset_mode=mode)
    envs = factory()
    memory = NStepReplayBuffer.standalone(100, num_envs=NUM_ENVS, n_step=2, gamma=0.5, seed=0)
    obs, done = envs.reset(), np.ones((NUM_ENVS, 1), np.bool_)
    for time in range(30):
        action = np.full((NUM_ENVS, 1), time % space.n)
        step = envs.step(action)
        ended = step.terminated | step.truncated
        sample = {
            keys.OBS: obs,
            keys.ACTION: action,
            keys.REWARD: step.reward,
            keys.DONE: done,
            keys.NEXT_OBS: step.next_obs,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: step.terminated,
            keys.CUT: step.cut,
        }
        memory.insert_transition(sample if step.skip is None else sample | {keys.SKIP: step.skip})
        obs, done = step.obs, step.begins
    envs.close()
    assert memory.num_cuts == 0, "every break of a stream was announced"
    batch = {key: values.numpy() for key, values in memory.sample(500).items()}
    for place, action, reward, discount, num_steps, led_to in zip(
        *(batch[key] for key in (keys.OBS, keys.ACTION, keys.REWARD, keys.DISCOUNT, keys.N_STEP, keys.NEXT_OBS)),
        strict=True,
    ):
        count = int(num_steps[0])
        places = [place + number * ONE_STEP for number in range(count + 1)]
        rewards = [reward_of(each, (action + number) % space.n) for number, each in enumerate(places[:-1])]
        assert (led_to == places[-1]).all()
        np.testing.assert_allclose(reward, sum(value * 0.5**number for number, value in enumerate(rewards)))
        assert discount == 0.5**count * (1 - ends_at(led_to)[0])
        assert not any(any(ends_at(each)) for each in places[1:-1])
