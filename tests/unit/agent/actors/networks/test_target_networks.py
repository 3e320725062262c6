import torch
from torch import nn

from recollect.agent.actors.networks.target_networks import TargetNetworks, frozen_copy


def test_a_copy_takes_no_gradients_and_shares_nothing() -> None:
    online = nn.Linear(3, 2)
    target = frozen_copy(online)
    assert not any(weight.requires_grad for weight in target.parameters())
    assert online.weight.requires_grad
    assert target.weight.data_ptr() != online.weight.data_ptr()
    assert torch.equal(target.weight, online.weight)


def test_targets_move_a_share_of_the_way() -> None:
    online = nn.Linear(3, 2)
    target = frozen_copy(online)
    start = online.weight.detach().clone()
    online.weight.data += 1.0
    TargetNetworks([(online, target), (None, None), (nn.Linear(1, 1), None)]).update(0.1)
    torch.testing.assert_close(target.weight.data, start + 0.1)
    torch.testing.assert_close(online.weight.data, start + 1.0)


def test_a_share_of_1_copies_bit_for_bit() -> None:
    online = nn.Linear(3, 2)
    target = frozen_copy(online)
    online.weight.data += torch.randn(2, 3) * 1e-7
    TargetNetworks([(online, target)]).update(1.0)
    assert torch.equal(target.weight, online.weight)


def test_statistics_are_copied() -> None:
    online = nn.BatchNorm1d(2)
    target = frozen_copy(online)
    targets = TargetNetworks([(online, target)])
    online(torch.randn(5, 2) + 3.0)
    targets.update(0.1)
    assert online.running_mean is not None
    assert online.running_mean.abs().sum() > 0
    assert torch.equal(target.running_mean, online.running_mean)


def test_without_targets_nothing_happens() -> None:
    online = nn.BatchNorm1d(2)
    before = {name: value.clone() for name, value in online.state_dict().items()}
    for pairs in ([], [(online, None)]):
        TargetNetworks(pairs).update(0.5)
        TargetNetworks(pairs).update(1.0)
    assert all(torch.equal(value, before[name]) for name, value in online.state_dict().items())
