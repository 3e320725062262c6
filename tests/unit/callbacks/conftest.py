"""Schemes whose evaluations have the scores that a test asks for."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recollect.scheme import Scheme
from recollect.scheme.collection.worker.evaluation import Evaluation
from tests.schemes import make_scheme

ScoredScheme = Callable[..., Scheme]


@pytest.fixture
def scored() -> ScoredScheme:
    """Makes a scheme that is evaluated every two updates, which is every stage, with the given scores in turn."""

    def make(scores: Sequence[float], **options: Any) -> Scheme:
        scheme = make_scheme(**{"test_every": 2, "start_steps": 1, **options})
        left = iter(scores)

        def evaluate(num_episodes: int) -> Evaluation:
            return Evaluation((next(left),) * 2, (1, 1))

        scheme.col_worker.evaluate_episodes = evaluate  # type: ignore[method-assign]
        return scheme

    return make
