import warnings

import pytest
import torch

from recollect import keys
from recollect.agent.algorithms import acceleration
from recollect.agent.algorithms.acceleration import check_precision, compiled
from recollect.errors import ConfigError, RecollectWarning
from tests.unit.agent.algorithms.off_policy.agents import OFF_POLICY, gradients, make_agent, make_batch

CPU = torch.device("cpu")


def make_rounded_agent(name: str, **options: object) -> object:
    """An agent in bfloat16; whether this processor has products of it does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecollectWarning)
        return make_agent(name, precision="bfloat16", actor_options={"hidden_sizes": (32, 32)}, **options)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_gradients_in_bfloat16_point_the_same_way(name: str) -> None:
    plain, rounded = make_agent(name, actor_options={"hidden_sizes": (32, 32)}), make_rounded_agent(name)
    batch = make_batch(plain, num_rows=32)
    rows = [torch.cat([each.flatten() for each in gradients(agent, batch)]) for agent in (plain, rounded)]  # type: ignore[arg-type]
    assert rows[1].dtype == torch.float32
    assert not torch.equal(*rows)
    assert torch.cosine_similarity(*rows, dim=0) > 0.99


def test_weights_and_errors_stay_in_float32() -> None:
    agent = make_rounded_agent("sac")
    _, info = agent.algo.compute_gradients(make_batch(agent))  # type: ignore[attr-defined, arg-type]
    agent.algo.apply_gradients()  # type: ignore[attr-defined]
    assert info[keys.ALGORITHM][keys.ERRORS].dtype == torch.float32
    assert {weight.dtype for weight in agent.actor.parameters()} == {torch.float32}  # type: ignore[attr-defined]


def test_values_of_a_distribution_are_not_rounded() -> None:
    """Neighbouring actions would be worth the same, and the first of them would be taken."""
    agent = make_agent("c51", lowest_return=-100.0, highest_return=100.0)
    atoms = torch.zeros(1, 2, 51)
    atoms[0, 1, 26] = 1e-3
    agent.algo.critics = lambda features: atoms[None]
    obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(1, *agent.actor.obs_space.shape))
    with torch.autocast("cpu", torch.bfloat16):
        action, *_ = agent.algo.acting_step(obs, rhs, done, deterministic=True)
    assert action.item() == 1


def test_a_memory_keeps_its_precision() -> None:
    with pytest.raises(ConfigError, match="without memory"):
        make_agent("sac", precision="bfloat16", actor_options={"memory": "gru"})
    with pytest.raises(ConfigError, match="precision"):
        make_agent("sac", precision="float16")


@pytest.mark.parametrize("has_products", [False, True])
def test_a_processor_without_bfloat16_is_warned_of(monkeypatch: pytest.MonkeyPatch, has_products: bool) -> None:
    monkeypatch.setattr(acceleration, "multiplies_bfloat16", lambda device: has_products)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_precision("bfloat16", CPU, is_recurrent=False)
        check_precision("float32", CPU, is_recurrent=False)
    assert ["slower than float32" in str(warning.message) for warning in caught] == [True] * (not has_products)


def test_without_a_compiler_nothing_is_compiled_and_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("/no/such/compiler",))
    with pytest.warns(RecollectWarning, match=r"needs a C\+\+ compiler .* CXX"):
        assert compiled(torch.relu, CPU) is torch.relu


def test_what_is_compiled_cannot_change_while_running() -> None:
    with pytest.raises(ConfigError, match="cannot change while it runs"):
        make_agent("sac").algo.update_algorithm_parameter("compile", True)
