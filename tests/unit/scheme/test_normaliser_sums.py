"""Normalisers of several workers are as one that has seen it all."""

import math

import numpy as np
import torch
from torch import nn

from recollect.agent.actors.networks.mlp.layers import BatchRenorm
from recollect.agent.actors.networks.normalise import RunningMeanStd
from recollect.scheme.normaliser_sums import increment, put_sums, take_sums


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.obs = RunningMeanStd((3,))
        self.reward = RunningMeanStd((1,))


def rows(seed: int, num: int) -> torch.Tensor:
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * seed + 5


def test_gains_of_workers_add_up_to_what_one_would_have_seen() -> None:
    one, first, second = Normalised(), Normalised(), Normalised()
    for actor in (one, first, second):
        actor.obs.update(rows(1, 10))
    before = take_sums(first)
    first.obs.update(rows(2, 30))
    second.obs.update(rows(3, 7))
    for number, num in ((2, 30), (3, 7)):
        one.obs.update(rows(number, num))
    increments = [increment(before, take_sums(each)) for each in (first, second)]
    put_sums(second, before, increments[0])
    put_sums(second, take_sums(second), increments[1])
    assert float(second.obs.count) == 47
    np.testing.assert_allclose(second.obs.mean, one.obs.mean, rtol=1e-12)
    np.testing.assert_allclose(second.obs.variance, one.obs.variance, rtol=1e-9)


def test_what_has_seen_nothing_stays_as_it_was() -> None:
    actor = Normalised()
    put_sums(actor, take_sums(Normalised()), {})
    assert float(actor.reward.count) == 0
    assert float(actor.reward.variance) == 1


class OfBatches(nn.Module):
    """Statistics of batches beside a constant that no difference can be taken of."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = BatchRenorm(1, 2)
        self.register_buffer("limit", torch.tensor([-math.inf, 1.0]))


def test_statistics_of_batches_move_by_the_mean_of_what_workers_saw() -> None:
    here, first, second = OfBatches(), OfBatches(), OfBatches()
    before = take_sums(here)
    for actor, mean in ((first, 1.0), (second, 3.0)):
        actor.norm.mean.fill_(mean)
        actor.norm.variance.fill_(mean)
        actor.norm.num_batches.fill_(5)
    increments = [increment(before, take_sums(actor)) for actor in (first, second)]
    put_sums(here, before, {name: increments[0][name] + increments[1][name] for name in before}, 2)
    assert here.norm.mean.unique().tolist() == here.norm.variance.unique().tolist() == [2.0]
    assert int(here.norm.num_batches) == 5
    assert here.get_buffer("limit").tolist() == [-math.inf, 1.0]


def test_an_actor_without_normalisers_has_no_sums() -> None:
    assert take_sums(nn.Linear(2, 2)) == {}
    assert take_sums(object()) == {}
