from typing import Any

import pytest
from torch import nn

from recollect.agent.actors import ActorConfig
from recollect.errors import ConfigError


def _builder(space: Any) -> nn.Module:
    return nn.Identity()


def test_widths_may_come_from_a_file() -> None:
    config = ActorConfig(hidden_sizes=[64, 32], feature_sizes=16)  # type: ignore[arg-type]
    assert (config.hidden_sizes, config.feature_sizes) == ((64, 32), (16,))


def test_no_hidden_layer_is_a_linear_head() -> None:
    assert ActorConfig(hidden_sizes=()).hidden_sizes == ()


def test_features_may_be_a_function() -> None:
    assert ActorConfig(features=_builder).features is _builder


def test_every_option_says_what_it_is_for() -> None:
    assert all(doc.endswith(".") for doc in ActorConfig.docs().values())


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_sizes": (0,)},
        {"hidden_sizes": "64,64"},
        {"activation": "swish"},
        {"memory": "rnn"},
        {"memory_size": 0},
        {"features": "cnn"},
        {"layer_norm": "yes"},
        {"memory": "gru", "sequence_overlap": -1},
        {"sequence_overlap": 4},
    ],
)
def test_a_value_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=list(options)[-1]):
        ActorConfig(**options)
