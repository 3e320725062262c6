"""Remote gradient workers compute what one here would, and are replaced when they are lost."""

import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
import ray
import torch

from recollect import metrics
from recollect.agent.storages import ReplayBuffer
from recollect.errors import NotFiniteError
from recollect.learner import Learner
from recollect.scheme import Scheme
from recollect.scheme.gradients.status import GradientStatus
from tests.schemes import make_scheme

pytestmark = pytest.mark.usefixtures("ray_cluster")

SYNC: Final = {"num_grad_workers": 2}
ASYNC: Final = {"num_grad_workers": 2, "grad_mode": "async"}
DECENTRALISED: Final = {"num_grad_workers": 2, "update_mode": "decentralised"}
RESOURCES: Final = {"grad_resources": {"num_cpus": 0.1}}


def run(scheme: Scheme, num_stages: int) -> dict[str, torch.Tensor]:
    for _ in range(num_stages):
        scheme.update_worker.step()
    return {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}


def train(learner: Learner, num_stages: int) -> None:
    for _ in range(num_stages):
        learner.step()


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(weight, right[name]) for name, weight in left.items())


def handle(scheme: Scheme, index: int) -> Any:
    return scheme.gradients.workers.handle(index)  # type: ignore[attr-defined]


def kill(scheme: Scheme, index: int) -> None:
    pid = scheme.gradients.workers.processes(300.0)[index].pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGKILL)


def test_one_worker_elsewhere_learns_the_same_as_one_here() -> None:
    here = make_scheme("sac", "per")
    elsewhere = make_scheme("sac", "per", workers={"num_grad_workers": 1, **RESOURCES})
    try:
        assert same(run(here, 6), run(elsewhere, 6))
        assert (here.num_steps, here.num_updates) == (elsewhere.num_steps, elsewhere.num_updates)
        assert here.status().episodes.num_episodes == elsewhere.status().episodes.num_episodes
    finally:
        elsewhere.stop()


def test_decentralised_updates_are_the_central_ones() -> None:
    """With normalisers too, which are the same everywhere once all have told what they saw."""
    schemes = [make_scheme("sac", "per", workers={**cell, **RESOURCES}) for cell in (SYNC, DECENTRALISED)]
    try:
        central, decentralised = (run(scheme, 5) for scheme in schemes)
        assert same(central, decentralised)
        peers = schemes[1].gradients.workers.indices  # type: ignore[attr-defined]
        states = ray.get([handle(schemes[1], index).learner_state.remote() for index in peers])
        assert all((states[0]["actor"][name] == values).all() for name, values in states[1]["actor"].items())
        assert schemes[0].num_updates == schemes[1].num_updates
    finally:
        for scheme in schemes:
            scheme.stop()


@pytest.mark.parametrize("cell", [pytest.param(SYNC, id="sync"), pytest.param(ASYNC, id="async")])
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost_or_counted_twice(
    cell: dict[str, Any], tmp_path: Path
) -> None:
    scheme = make_scheme("ddqn", "per", workers={**cell, **RESOURCES})
    learner = Learner(scheme, 10_000, tmp_path)
    try:
        for _ in range(3):
            learner.step()
        for index in (0, 1):
            num_steps, num_updates = learner.num_steps, learner.num_updates
            num_stored = status(scheme, index).num_stored
            kill(scheme, index)
            while not is_back(scheme, index):
                learner.step()
                assert num_steps <= learner.num_steps <= num_steps + 32
                num_steps = learner.num_steps
            assert learner.num_updates > num_updates
            assert status(scheme, index).num_steps >= num_stored
            # What it reports first may be where it resumed from.
            while status(scheme, index).num_steps <= num_stored:
                learner.step()
            found = status(scheme, index)
            assert found.num_stored == min(found.num_steps, found.capacity)
            assert found.collection["num_steps_lost"] == 0
        assert learner.get_metrics()[metrics.GRADIENT_RESTARTS] == 2
        assert scheme.algo.num_updates == learner.num_updates
    finally:
        learner.stop()


def status(scheme: Scheme, index: int) -> GradientStatus:
    """What was last heard of a worker."""
    found: GradientStatus = scheme.gradients.status_of(index)  # type: ignore[attr-defined]
    return found


def is_back(scheme: Scheme, index: int) -> bool:
    """Whether a worker that was killed has a successor that has collected."""
    restarts = scheme.gradients.workers.restarts  # type: ignore[attr-defined]
    return index in restarts and status(scheme, index).num_stored > 0


@pytest.mark.parametrize("cell", [pytest.param(ASYNC, id="async"), pytest.param(DECENTRALISED, id="decentralised")])
def test_a_run_that_is_saved_continues_with_what_its_workers_have_stored(cell: dict[str, Any], tmp_path: Path) -> None:
    learner = Learner(make_scheme("ddqn", "per", workers={**cell, **RESOURCES}), 10_000, tmp_path)
    train(learner, 3)
    learner.save_checkpoint()
    learner.stop()
    resumed = Learner(make_scheme("ddqn", "per", workers={**cell, **RESOURCES}), 10_000, tmp_path, resume=True)
    try:
        assert (resumed.num_steps, resumed.num_updates) == (learner.num_steps, learner.num_updates)
        assert same(resumed.scheme.actor.state_dict(), learner.scheme.actor.state_dict())
        assert resumed.scheme.status().num_stored == learner.scheme.status().num_stored > 0
        num_steps, num_updates = resumed.num_steps, resumed.num_updates
        resumed.step()
        assert resumed.num_steps > num_steps
        assert resumed.num_updates > num_updates
    finally:
        resumed.stop()


@pytest.mark.parametrize("cell", [pytest.param(ASYNC, id="async"), pytest.param(DECENTRALISED, id="decentralised")])
def test_components_are_exchanged_on_all_workers(cell: dict[str, Any]) -> None:
    scheme = make_scheme("ddqn", "per", workers={**cell, **RESOURCES})
    learner = Learner(scheme, 10_000)
    try:
        learner.step()
        learner.update_storage_parameter("n_step", 4)
        indices = scheme.gradients.workers.indices  # type: ignore[attr-defined]
        steps = [handle(scheme, index).__ray_call__.remote(lambda self: self.storage.n_step) for index in indices]
        assert ray.get(steps) == [4, 4]
        learner.replace_agent_component("storage", ReplayBuffer.create_factory(50, seed=1))
        names = [
            handle(scheme, index).__ray_call__.remote(lambda self: type(self.storage).__name__) for index in indices
        ]
        assert ray.get(names) == ["ReplayBuffer"] * 2
        num_updates = learner.num_updates
        for _ in range(4):
            learner.step()
        assert learner.num_updates > num_updates
    finally:
        learner.stop()


def test_a_loss_that_is_not_finite_ends_the_run_with_its_batch(tmp_path: Path) -> None:
    scheme = make_scheme("sac", "replay", workers={"num_grad_workers": 1, **RESOURCES})
    learner = Learner(scheme, 10_000, tmp_path)
    try:
        learner.step()

        def break_rewards(worker: Any) -> None:
            compute = worker.algo.compute_gradients

            def broken(batch: Any, grads_to_cpu: bool = True) -> Any:
                batch["Reward"].fill_(float("nan"))
                return compute(batch, grads_to_cpu)

            worker.algo.compute_gradients = broken

        ray.get(handle(scheme, 0).__ray_call__.remote(break_rewards))
        with pytest.raises(NotFiniteError, match="gradient worker 0"):
            train(learner, 5)
        assert learner.run is not None
        assert learner.run.batch_file.exists()
    finally:
        learner.stop()
