"""The parts are put together as a config says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.spaces import Discrete

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.storages import GAEBuffer, NStepReplayBuffer, ReplayBuffer
from recollect.config import build, presets, resolve
from recollect.errors import ConfigError, EnvError
from recollect.learner import Learner
from recollect.scheme.scheme import Scheme

SMALL = {"actor.hidden_sizes": [8, 8], "num_test_envs": 2}
ENVS = {name: "CartPole-v1" if Discrete in ALGORITHMS[name].action_spaces else "Pendulum-v1" for name in ALGORITHMS}
Builder = Callable[..., Scheme]


@pytest.fixture
def make() -> Iterator[Builder]:
    """A function that builds a scheme from words and overrides, closed at the end."""
    schemes = []

    def make(algo: str, env: str, **overrides: Any) -> Scheme:
        schemes.append(build(resolve(algo, env, preset="none", overrides={**SMALL, **overrides})))
        return schemes[-1]

    yield make
    for scheme in schemes:
        scheme.stop()


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_can_be_built_with_its_plainest_storage(algo: str, make: Builder) -> None:
    scheme = make(algo, ENVS[algo], num_envs=3, gamma=0.9)
    assert isinstance(scheme.algo, ALGORITHMS[algo])
    assert scheme.algo.gamma == 0.9
    assert scheme.num_envs == 3
    assert scheme.col_worker.envs_test.num_envs == SMALL["num_test_envs"] != 3
    assert isinstance(scheme.storage, GAEBuffer if ALGORITHMS[algo].is_on_policy else ReplayBuffer)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_config_can_be_built_from_its_file_with_all_defaults_spelled_out(algo: str, tmp_path: Path) -> None:
    config = resolve(algo, ENVS[algo], preset="none", overrides=SMALL).with_defaults()
    config.save(tmp_path / "config.yaml")
    scheme, again = build(config), build(resolve(file=tmp_path / "config.yaml"))
    scheme.stop()
    again.stop()
    assert again.algo.config == scheme.algo.config


def test_options_reach_their_parts(make: Builder) -> None:
    overrides = {"storage": "nstep", "n_step": 4, "storage.size": 50, "memory": "gru", "memory_size": 5}
    scheme = make("ddqn", "recollect/RecallCue-v0", **overrides, **{"env.num_cues": 3, "algo.critic_lr": 0.5})
    assert isinstance(scheme.storage, NStepReplayBuffer)
    assert (scheme.storage.n_step, scheme.storage.max_size) == (4, 50)
    assert (scheme.actor.is_recurrent, scheme.actor.recurrent_size) == (True, 5)
    assert scheme.algo.config.critic_lr == 0.5
    assert scheme.actor.action_space.n == 3


def test_a_replay_holds_a_million_transitions_unless_told_otherwise(make: Builder) -> None:
    assert make("ddqn", "CartPole-v1", num_envs=4).storage.max_size == 250_000


def test_an_on_policy_storage_holds_one_rollout(make: Builder) -> None:
    assert make("ppo", "CartPole-v1", update_every=16).storage.max_size == 16


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(make: Builder) -> None:
    first, again, other = (make("ddqn", "CartPole-v1", seed=seed).actor.state_dict().values() for seed in (1, 1, 2))
    assert all(bool((a == b).all()) for a, b in zip(first, again, strict=True))
    assert not all(bool((a == b).all()) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("device", ["nowhere", 1.5, 10**30, "meta"])
def test_a_device_that_is_not_there_is_refused(device: Any, make: Builder) -> None:
    with pytest.raises(ConfigError, match=f"device {device!r} cannot be used"):
        make("ddqn", "CartPole-v1", device=device)


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_can_be_built(name: str) -> None:
    config = resolve(preset=name, overrides={"num_test_envs": 1})
    scheme = build(config)
    scheme.stop()
    algo = scheme.algo
    num_stages = (config.steps - algo.start_steps) / (algo.update_every * config.num_envs)
    num_evaluations = num_stages * algo.num_epochs * algo.num_mini_batch / algo.test_every
    assert 5 <= num_evaluations <= 20, "a curve needs some evaluations, and they cost time"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in presets.names() if presets.tested(name) is None])
def test_a_preset_that_was_never_run_to_its_end_trains(name: str) -> None:
    # Long enough for the returns over 20 steps of games.
    config = resolve(preset=name, overrides={"num_test_envs": 1, "algo.start_steps": 64, "mini_batch_size": 8})
    learner = Learner(build(config), 130)
    while not learner.done() and not learner.scheme.algo.num_computed:
        learner.step()
    assert learner.scheme.algo.num_computed, "no update"
    learner.stop()


@pytest.mark.parametrize("vec", ["async", "native", "envpool"])
def test_test_envs_are_of_the_same_kind(vec: str, make: Builder) -> None:
    scheme = make("ddqn", "CartPole-v1", vec=vec)
    driven = [type(envs.vector) for envs in (scheme.col_worker.envs_train, scheme.col_worker.envs_test)]
    assert driven[0] is driven[1]


class Broken(CartPoleEnv):
    """Cannot be stepped."""

    def step(self, action: object) -> Any:
        raise RuntimeError("no step today")


def test_the_limit_of_failures_is_that_of_train_and_test_envs() -> None:
    scheme = build(resolve("ddqn", Broken, preset="none", overrides={**SMALL, "max_consecutive_failures": 2}))
    for act in (scheme.col_worker.collect_train_data, scheme.col_worker.evaluate):
        with pytest.raises(EnvError, match=r"failed 3 times in a row.*max_consecutive_failures is 2"):
            act()
    scheme.stop()


def test_ids_that_only_a_pool_has_can_be_built(make: Builder) -> None:
    scheme = make("ddqn", "Pong-v5", vec="envpool", **{"storage.size": 100})
    assert scheme.actor.obs_space.shape == (4, 84, 84)


@pytest.mark.parametrize(("algo", "storage"), [("ddqn", "replay"), ("ppo", "gae")])
def test_frames_of_atari_are_stored_once(algo: str, storage: str, make: Builder) -> None:
    scheme = make(algo, "ALE/Pong-v5", storage=storage, num_test_envs=1)
    scheme.col_worker.collect_train_data(20)
    assert scheme.storage.num_bytes / len(scheme.storage) < 1.5 * 84 * 84
    assert scheme.storage.get_data_slice(5, 6)["Observation"].shape == (1, 1, 4, 84, 84)
