import pytest

from recollect.agent.actors import ActorPlan
from recollect.errors import ConfigError


@pytest.mark.parametrize(
    ("target_policy", "target_critics", "has_targets"),
    [(False, False, False), (True, False, True), (False, True, True)],
)
def test_any_slow_copy_counts(target_policy: bool, target_critics: bool, has_targets: bool) -> None:
    plan = ActorPlan("deterministic", "q_action", target_policy=target_policy, target_critics=target_critics)
    assert plan.has_targets is has_targets


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"policy": "gausian", "critic": "value"}, "gaussian"),
        ({"policy": "gaussian", "critic": "q_value"}, "q_values"),
        ({"policy": "gaussian", "critic": "value", "num_critics": 0}, "num_critics"),
        ({"policy": None, "critic": "value"}, "without a policy"),
        ({"policy": None, "critic": "q_values", "target_policy": True}, "without a policy"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(fields: dict[str, object], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        ActorPlan(**fields)  # type: ignore[arg-type]
