"""Returns with numbers worked by hand, and against sums written out as in the papers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.agent.kernels.fusible import plain_operators
from recollect.agent.storages.on_policy.returns import gae, vtrace

GAMMA = 0.9
PROPERTY = settings(max_examples=60)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_gae_of_two_steps_and_a_bootstrap() -> None:
    advantages = gae(
        r_t=column(1.0, 2.0),
        discount_t=column(0.5, 0.5),
        v_t=column(3.0, 4.0),
        v_tp1=column(4.0, 6.0),
        continues_t=column(1.0, 0.0),
        gae_lambda=0.5,
    )
    # δ_1 = 2 + 0.5·6 - 4 = 1; δ_0 = 1 + 0.5·4 - 3 = 0, and A_0 = δ_0 + 0.25·A_1.
    torch.testing.assert_close(advantages, column(0.25, 1.0))


def test_termination_keeps_the_reward_alone() -> None:
    advantages = gae(column(5.0), column(0.0), column(2.0), column(100.0), column(0.0), 0.95)
    torch.testing.assert_close(advantages, column(3.0))


def test_nothing_flows_back_over_a_break() -> None:
    advantages = gae(
        column(1.0, 50.0), column(0.5, 0.5), column(0.0, 0.0), column(2.0, 0.0), column(0.0, 0.0), gae_lambda=1.0
    )
    torch.testing.assert_close(advantages, column(2.0, 50.0))


def test_lambda_one_is_the_return_less_the_value() -> None:
    advantages = gae(
        column(1.0, 1.0, 1.0), column(0.9, 0.9, 0.0), column(7.0, 5.0, 3.0), column(5.0, 3.0, 0.0), column(1, 1, 0), 1.0
    )
    torch.testing.assert_close(advantages, column(1 + 0.9 + 0.81 - 7, 1 + 0.9 - 5, 1 - 3))


def test_vtrace_clips_both_weights() -> None:
    targets, advantages = vtrace(
        r_t=column(1.0, 2.0),
        discount_t=column(0.5, 0.5),
        v_t=column(3.0, 4.0),
        v_tp1=column(4.0, 6.0),
        continues_t=column(1.0, 0.0),
        log_rho_t=column(math.log(4.0), math.log(0.5)),
        rho_bar=2.0,
        c_bar=1.0,
    )
    # Step 1: δ = 0.5·(2 + 3 - 4) = 0.5, target 4.5. Step 0: δ = 2·(1 + 2 - 3) = 0 and c = 1, so 3 + 0.5·0.5.
    torch.testing.assert_close(targets, column(3.25, 4.5))
    # Advantages look at the target behind: 1 + 0.5·4.5 - 3 and 2 + 0.5·6 - 4.
    torch.testing.assert_close(advantages, column(0.25, 1.0))


def test_vtrace_of_the_acting_policy_is_gae() -> None:
    r_t, v_t, v_tp1 = column(1.0, -2.0, 3.0), column(0.3, 0.2, 0.1), column(0.2, 0.1, 4.0)
    discount_t, continues_t = column(0.9, 0.9, 0.9), column(1.0, 1.0, 0.0)
    targets, advantages = vtrace(r_t, discount_t, v_t, v_tp1, continues_t, torch.zeros_like(r_t), trace_lambda=0.7)
    expected = gae(r_t, discount_t, v_t, v_tp1, continues_t, 0.7)
    torch.testing.assert_close(targets - v_t, expected)
    torch.testing.assert_close(advantages, expected)


@st.composite
def streams(draw: st.DrawFn) -> dict[str, Tensor]:
    """Random streams `[time, 2]` with ends and breaks, in which values agree where they continue."""
    time = draw(st.integers(1, 8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def drawn() -> Tensor:
        return torch.randn(time, 2, generator=generator, dtype=torch.float64)

    terminated = drawn() > 0.8
    continues = (drawn() < 0.8) & ~terminated
    continues[-1] = False
    v_t = drawn()
    v_tp1 = torch.where(continues, torch.cat([v_t[1:], v_t[:1]]), drawn())
    return {
        "r_t": drawn(),
        "discount_t": GAMMA * (~terminated).double(),
        "v_t": v_t,
        "v_tp1": v_tp1,
        "continues_t": continues.double(),
        "log_rho_t": drawn(),
    }


def sum_of(terms: Tensor, decays: Tensor, begin: int, lane: int) -> float:
    """Terms from `begin` on, each with the product of the decays before it, until one of them is 0."""
    total, weight = 0.0, 1.0
    for step in range(begin, len(terms)):
        total += weight * float(terms[step, lane])
        weight *= float(decays[step, lane])
    return total


@PROPERTY
@given(stream=streams(), gae_lambda=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_gae_is_the_discounted_sum_of_errors(stream: dict[str, Tensor], gae_lambda: float) -> None:
    stream.pop("log_rho_t")
    found = gae(**stream, gae_lambda=gae_lambda)
    errors = stream["r_t"] + stream["discount_t"] * stream["v_tp1"] - stream["v_t"]
    decays = gae_lambda * stream["discount_t"] * stream["continues_t"]
    for step in range(len(errors)):
        for lane in range(2):
            assert float(found[step, lane]) == pytest.approx(sum_of(errors, decays, step, lane))


@PROPERTY
@given(stream=streams(), rho_bar=st.sampled_from([0.5, 1.0, 3.0]), c_bar=st.sampled_from([0.5, 1.0, 3.0]))
def test_vtrace_is_the_sum_of_the_paper(stream: dict[str, Tensor], rho_bar: float, c_bar: float) -> None:
    targets, advantages = vtrace(**stream, rho_bar=rho_bar, c_bar=c_bar)
    r_t, discount_t, v_t, v_tp1, continues_t, log_rho_t = stream.values()
    rho_t, c_t = log_rho_t.exp().clamp(max=rho_bar), log_rho_t.exp().clamp(max=c_bar)
    errors = rho_t * (r_t + discount_t * v_tp1 - v_t)
    for step in range(len(errors)):
        for lane in range(2):
            target = float(v_t[step, lane]) + sum_of(errors, discount_t * c_t * continues_t, step, lane)
            assert float(targets[step, lane]) == pytest.approx(target)
            after = targets[step + 1, lane] if continues_t[step, lane] else v_tp1[step, lane]
            gain = r_t[step, lane] + discount_t[step, lane] * after - v_t[step, lane]
            assert float(advantages[step, lane]) == pytest.approx(float(gain))


@given(st.integers(1, 20), st.integers(0, 5), st.booleans(), st.integers(0, 99))
def test_a_kernel_sums_as_the_operators_do(time: int, lanes: int, is_turned: bool, seed: int) -> None:
    torch.manual_seed(seed)
    columns = [torch.rand(lanes, time).T if is_turned else torch.rand(time, lanes) for _ in range(5)]
    found = gae(*columns, gae_lambda=0.9)
    with plain_operators():
        expected = gae(*columns, gae_lambda=0.9)
    torch.testing.assert_close(found, expected)
