"""Intrinsic rewards: stored with every step, learned beside the losses, and computed again when steps are replayed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.actors.spaces import map_observation
from recollect.config import build, resolve
from recollect.learner import Learner
from recollect.scheme import Scheme

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "num_envs": 2, "seed": 1, "test_every": 0, "device": "cpu"}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "replay": ("ddqn", "CartPole-v1", {"storage": "replay"}),
    "per": ("ddqn", "CartPole-v1", {"storage": "per", "n_step": 3, "alpha": 0.6}),
    "sequences": ("sac", "Pendulum-v1", {"storage": "nstep", "n_step": 2, "memory": "gru"}),
    "her": ("ddqn", "recollect/BitFlip-v0", {"storage": "her", "n_step": 2}),
    "gae": ("ppo", "CartPole-v1", {"storage": "gae"}),
    "vtrace": ("a2c", "Pendulum-v1", {"storage": "vtrace", "memory": "gru"}),
}
OFF_POLICY = ["replay", "per", "sequences", "her"]


def make(kind: str, **more: Any) -> Scheme:
    algo, env, options = KINDS[kind]
    pace: dict[str, Any] = {"update_every": 8, "num_mini_batch": 2, "mini_batch_size": 16}
    if kind in OFF_POLICY:
        pace |= {"start_steps": 32, "size": 200}
    overrides = {**SMALL, "intrinsic": "rnd", "intrinsic_lr": 1e-2, **pace, **options, **more}
    return build(resolve(algo, env, preset="none", overrides=overrides))


def run(scheme: Scheme, num_stages: int = 6) -> Scheme:
    for _ in range(num_stages):
        scheme.update_worker.step()
    return scheme


def weights_of(scheme: Scheme, prefix: str) -> list[torch.Tensor]:
    return [value.clone() for name, value in scheme.actor.state_dict().items() if name.startswith(prefix)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_stored_with_a_reward_and_only_the_prediction_is_learned(kind: str) -> None:
    scheme = make(kind)
    targets, predictors = (weights_of(scheme, f"curiosity.{name}") for name in ("target", "predictor"))
    run(scheme)
    stored = scheme.storage.get_all_buffer_data()  # type: ignore[attr-defined]
    assert (np.asarray(stored[keys.IREWARD]) > 0).all()
    assert all(map(torch.equal, targets, weights_of(scheme, "curiosity.target")))
    assert not any(map(torch.equal, predictors, weights_of(scheme, "curiosity.predictor")))
    scheme.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_the_prediction_descends_its_error_and_nothing_else_does(kind: str) -> None:
    scheme = run(make(kind, max_grad_norm=None))
    scheme.storage.before_gradients()
    batch = next(iter(scheme.storage.generate_batches(2, 16)))
    obs = batch[keys.NEXT_OBS]
    if keys.MASK in batch:
        is_step = batch[keys.MASK][..., 0].bool()
        obs = map_observation(lambda values: values[is_step], obs)
    curiosity = scheme.actor.curiosity  # type: ignore[attr-defined]
    loss = curiosity.novelty(obs).mean()
    wanted = torch.autograd.grad(loss, list(curiosity.predictor.parameters()))
    _, info = scheme.algo.compute_gradients(batch)
    found = [weight.grad for weight in curiosity.predictor.parameters()]
    torch.testing.assert_close(found, [*wanted], rtol=1e-4, atol=1e-6)
    assert info[keys.ALGORITHM]["loss_intrinsic"] == pytest.approx(loss.item(), rel=1e-4)
    scheme.stop()


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_replayed_steps_are_as_new_as_they_are_now(kind: str) -> None:
    scheme = run(make(kind))
    storage: Any = scheme.storage
    data = storage.get_all_buffer_data()
    num_steps = len(data[keys.REWARD])
    reached = map_observation(lambda values: torch.as_tensor(values).flatten(0, 1), data[keys.NEXT_OBS])
    now = scheme.actor.intrinsic_reward(reached).view(num_steps, 2)  # type: ignore[attr-defined]
    assert not torch.allclose(now, torch.as_tensor(data[keys.IREWARD])[..., 0])
    gamma, batch = scheme.algo.gamma, storage.sample(64)
    ids = batch[keys.IDXS]
    lanes, starts = ids >> 40, ids & ((1 << 40) - 1)
    assert {int(lane) for lane in lanes} <= {0, 1}
    rows = batch[keys.IREWARD] if keys.MASK in batch else batch[keys.IREWARD][:, None]  # [rows, positions, 1]
    lengths = batch[keys.N_STEP] if keys.MASK in batch else batch[keys.N_STEP][:, None]
    is_known = batch[keys.MASK] if keys.MASK in batch else torch.ones_like(rows)
    for row, (lane, start) in enumerate(zip(lanes.tolist(), starts.tolist(), strict=True)):
        for position in range(rows.shape[1]):
            if is_known[row, position]:
                at, length = start + position, int(lengths[row, position])
                wanted = sum(gamma**k * now[at + k, lane] for k in range(length))
                assert rows[row, position].item() == pytest.approx(float(wanted), rel=1e-3, abs=1e-5)
    scheme.stop()


def test_rewards_stay_as_they_were_collected_where_the_option_says_so() -> None:
    scheme = run(make("replay", recompute_intrinsic=False))
    data = scheme.storage.get_all_buffer_data()  # type: ignore[attr-defined]
    kept = {round(float(value), 5) for value in np.asarray(data[keys.IREWARD]).ravel()}
    batch = scheme.storage.sample(32)  # type: ignore[attr-defined]
    assert {round(float(value), 5) for value in batch[keys.IREWARD]} <= kept
    scheme.stop()


@pytest.mark.parametrize("kind", ["per", "gae"])
def test_a_resumed_run_continues_to_the_bit(kind: str, tmp_path: Path) -> None:
    whole = Learner(make(kind), 192)
    learner = Learner(make(kind), 96, tmp_path)
    for each in (whole, learner):
        while not each.done():
            each.step()
    learner.save_checkpoint()
    learner.stop()
    resumed = Learner(make(kind), 192, tmp_path, resume=True)
    while not resumed.done():
        resumed.step()
    wanted = whole.scheme.actor.state_dict()
    for name, weight in resumed.scheme.actor.state_dict().items():
        assert torch.equal(weight, wanted[name]), name
    whole.stop()
    resumed.stop()
