import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from recollect.agent.kernels.fusible import plain_operators
from recollect.config import build, resolve
from recollect.scheme.threads import choose_threads, pick
from tests.schemes import make_scheme


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As many threads as four cores have by default, and nobody who said how many."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(num_threads)


class Flops(TorchDispatchMode):
    """Counts those of all products inside; PyTorch's own counter refuses gradients of leaves."""

    total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        if function.overloadpacket in flop_registry:
            self.total += flop_registry[function.overloadpacket](*args, **(kwargs or {}), out_val=found)
        return found


def let_take(seconds: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work with a number of threads take so long."""
    clock = [0.0]

    def now() -> float:
        clock[0] += seconds[torch.get_num_threads()]
        return clock[0]

    monkeypatch.setattr("recollect.scheme.threads.time.perf_counter", now)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 1.0, 2: 2.0, 4: 4.0}, 1),
        ({1: 1.0, 2: 0.6, 4: 0.9}, 2),
        ({1: 1.0, 2: 0.6, 4: 0.3}, 4),
        ({1: 1.0, 2: 1.2, 4: 0.5}, 4),
        ({1: 1.0, 2: 0.93, 4: 0.95}, 1),
    ],
)
def test_the_fewest_threads_that_pay_are_chosen_and_told(
    seconds: dict[int, float], expected: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheme = make_scheme("sac")
    torch.set_num_threads(4)
    let_take(seconds, monkeypatch)
    with caplog.at_level(logging.INFO, "recollect.scheme.threads"):
        assert choose_threads(scheme.algo) == torch.get_num_threads() == expected
    assert f"PyTorch uses {expected} of 4 threads" in caplog.text
    assert pick(seconds) == expected
    scheme.stop()


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_the_user_said_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "4")
    scheme = make_scheme("sac")
    torch.set_num_threads(4)
    assert choose_threads(scheme.algo) is None
    assert torch.get_num_threads() == 4
    scheme.stop()


def test_one_thread_is_all_that_there_is() -> None:
    torch.set_num_threads(1)
    scheme = make_scheme("sac")
    assert choose_threads(scheme.algo) is None
    scheme.stop()


def test_all_layers_are_tried_forward_and_backward() -> None:
    overrides = {"seed": 1, "device": "cpu", "hidden_sizes": (32, 16), "mini_batch_size": 64}
    scheme = build(resolve("sac", "Pendulum-v1", preset="none", overrides=overrides))
    with plain_operators(), Flops() as counter:
        choose_threads(scheme.algo)
    layers = [(3, 32), (32, 16), (16, 2), *[(4, 32), (32, 16)] * 2]
    # Of a single column, only the gradient of its weights is a product.
    once = 2 * 64 * (3 * sum(wide * narrow for wide, narrow in layers) + 2 * 16)
    assert counter.total >= 6 * once
    assert counter.total % once == 0
    scheme.stop()


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "continuous": ("sac", "Pendulum-v1", {"normalise_observations": True}),
    "dueling": ("ddqn", "CartPole-v1", {"dueling": True}),
    "memory": ("ddqn", "CartPole-v1", {"memory": "gru", "feature_sizes": (8,)}),
    "dict": ("ddqn", "recollect/BitFlip-v0", {"storage": "her"}),
    "rollouts": ("ppo", "CartPole-v1", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_trying_changes_nothing_that_is_learned_or_drawn(case: str) -> None:
    algo, env, options = CASES[case]
    scheme = build(resolve(algo, env, preset="none", overrides={"seed": 1, "device": "cpu", **options}))

    def everything() -> list[Any]:
        values = {**scheme.actor.state_dict(), **scheme.algo.state(), "acting": scheme.actor.generator.get_state()}
        gradients = [parameter.grad for parameter in scheme.algo.optimiser.parameters]
        return [torch.get_rng_state(), *values.values(), *gradients]

    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in everything()]
    assert choose_threads(scheme.algo) in (1, 2, 4)
    for old, new in zip(before, everything(), strict=True):
        assert torch.equal(old, new) if isinstance(old, torch.Tensor) else old == new
    scheme.stop()
