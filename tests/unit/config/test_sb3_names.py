"""Hints name options that there are."""

import pytest

from recollect.config import settings
from recollect.config.parts import ACTOR, ALGO, STORAGE, options_of, registry
from recollect.config.sb3_names import SB3_NAMES

PARTS = [(ACTOR, None), *((ALGO, name) for name in registry(ALGO)), *((STORAGE, name) for name in registry(STORAGE))]
OURS = {*settings(), *(option for part, name in PARTS for option in options_of(part, name))}


@pytest.mark.parametrize("name", SB3_NAMES)
def test_every_hint_leads_to_an_option_and_from_a_name_that_is_none(name: str) -> None:
    assert {path.rpartition(".")[2] for path in SB3_NAMES[name]} <= OURS
    assert name not in OURS
