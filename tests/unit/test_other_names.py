"""Hints name options that there are, and the guide has the same names."""

from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Box

from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.sac import SAC
from recollect.agent.storages import PERBuffer
from recollect.config import settings
from recollect.config.parts import ACTOR, ALGO, SCHEME, STORAGE, options_of, registry
from recollect.errors import ConfigError
from recollect.other_names import OTHER_NAMES, PYTORCHRL_NAMES, RLLTE_NAMES, SB3_NAMES
from recollect.scheme.config import SchemeConfig

FOLLOWING = (*((ALGO, name) for name in registry(ALGO)), *((STORAGE, name) for name in registry(STORAGE)))
PARTS = [(ACTOR, None), (SCHEME, None), *FOLLOWING]
OURS = {*settings(), *(option for part, name in PARTS for option in options_of(part, name))}
BOX = Box(-1.0, 1.0, (2,))
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "coming-from.md"


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_every_hint_leads_to_an_option_and_from_a_name_that_is_none(name: str) -> None:
    assert {path.rpartition(".")[2] for path in OTHER_NAMES[name]} <= OURS
    assert name not in OURS


@pytest.mark.parametrize(
    ("make", "old", "ours"),
    [
        (lambda **given: SchemeConfig.of("a scheme", given), "col_workers_communication", "'col_mode'"),
        (lambda **given: SchemeConfig.of("a scheme", given), "col_preemption_thresholds", "'fraction_samples' or"),
        (SAC.create_factory, "lr_pi", "'policy_lr'"),
        (SAC.create_factory, "discount", "'gamma'"),
        (lambda **given: PERBuffer.create_factory(10, **given), "buffer_size", "'storage.size'"),
        (lambda **given: OffPolicyActor.create_factory(BOX, BOX, SAC, **given), "recurrent_nets", "'memory'"),
    ],
)
def test_a_name_from_elsewhere_is_refused_with_ours(make: Any, old: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"has no option '{old}'; did you mean {ours}"):
        make(**{old: 1})


def test_a_factory_and_a_name_are_not_unpacked() -> None:
    with pytest.raises(TypeError, match=r"algo_factory = SAC\.create_factory\(\.\.\.\)"):
        _factory, _name = SAC.create_factory()


@pytest.mark.parametrize(
    ("title", "names"), [("Stable-Baselines3", SB3_NAMES), ("PyTorchRL", PYTORCHRL_NAMES), ("RLLTE", RLLTE_NAMES)]
)
def test_the_guide_has_every_name(title: str, names: dict[str, tuple[str, ...]]) -> None:
    section = GUIDE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.split(" | ")[:2] for line in section.splitlines() if line.startswith("| `")]
    found = {old.strip("| `"): ours for old, ours in rows}
    for old, ours in names.items():
        assert all(f"`{path}`" in found[old] for path in ours), old
