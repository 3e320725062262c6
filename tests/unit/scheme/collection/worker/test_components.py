"""Components that do not fit are refused before anything changes."""

import pytest

from recollect.agent.envs import VecEnv
from recollect.config import build, resolve
from recollect.errors import ConfigError
from recollect.scheme.base.commands import ReplaceComponent
from tests.integration.ray.parts import make_set
from tests.unit.scheme.fake_engine import FakeEngine


@pytest.mark.parametrize("component", ["envs_train", "envs_test"])
@pytest.mark.parametrize(
    ("env_id", "options", "role"),
    [("Acrobot-v1", {}, "observations"), ("recollect/RecallCue-v0", {"num_cues": 3}, "actions")],
)
def test_environments_that_the_actor_was_not_made_for(
    component: str, env_id: str, options: dict[str, int], role: str
) -> None:
    first = "recollect/RecallCue-v0" if role == "observations" else "CartPole-v1"
    scheme = build(resolve("ddqn", first, preset="none", overrides={"start_steps": 2, "num_test_envs": 1}))
    worker = scheme.col_worker
    envs = getattr(worker, component)
    factory, _, _ = VecEnv.create_factory(env_id, options)
    with pytest.raises(ConfigError, match=f"the actor is made for {role} in"):
        scheme.replace_agent_component(component, factory)
    assert getattr(worker, component) is envs
    worker.collect_train_data(5)
    assert len(worker.evaluate_episodes(1).returns) == 1
    scheme.stop()


def test_environments_of_the_same_form_take_the_place_of_others() -> None:
    scheme = build(resolve("ddqn", "CartPole-v1", preset="none", overrides={"start_steps": 2, "num_test_envs": 1}))
    factory, _, _ = VecEnv.create_factory("CartPole-v0")
    worker = scheme.col_worker
    before = worker.envs_train
    scheme.replace_agent_component("envs_train", factory)
    assert worker.envs_train is worker.algo.envs is worker.storage.envs is not before
    assert worker.envs_train.env_fns[0]().spec.id == "CartPole-v0"
    worker.collect_train_data(5)
    assert len(worker.storage) == worker.num_steps == 5
    scheme.stop()


def test_environments_of_another_form_do_not_reach_remote_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would refuse them one by one, and be rebuilt for it."""
    fake = FakeEngine(monkeypatch)
    workers = make_set(2, col_worker_resources={"num_cpus": 1})
    envs, num_calls = workers.local_worker().envs_train, [len(handle.calls) for handle in fake.handles]
    factory, _, _ = VecEnv.create_factory("Acrobot-v1", vec_env_size=2)
    for factory_or_function in (factory, lambda *place: factory(*place)):
        with pytest.raises(ConfigError, match="the actor is made for observations in"):
            workers.broadcast(ReplaceComponent("envs_train", factory_or_function))
    assert workers.local_worker().envs_train is envs
    assert [len(handle.calls) for handle in fake.handles] == num_calls
    same, _, _ = VecEnv.create_factory("CartPole-v0", vec_env_size=2)
    workers.broadcast(ReplaceComponent("envs_train", same))
    assert workers.num_restarts == 0
    workers.stop()
