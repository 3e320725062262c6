import torch
from torch import nn

from recollect.agent.actors.networks.target_networks import TargetNetworks, frozen_copy


def test_a_copy_takes_no_gradients_and_shares_nothing() -> None:
    leader = nn.Linear(3, 2)
    follower = frozen_copy(leader)
    assert not any(weight.requires_grad for weight in follower.parameters())
    assert leader.weight.requires_grad
    assert follower.weight.data_ptr() != leader.weight.data_ptr()
    assert torch.equal(follower.weight, leader.weight)


def test_copies_move_a_share_of_the_way() -> None:
    leader = nn.Linear(3, 2)
    follower = frozen_copy(leader)
    start = leader.weight.detach().clone()
    leader.weight.data += 1.0
    TargetNetworks([(leader, follower), (None, None), (nn.Linear(1, 1), None)]).update(0.1)
    torch.testing.assert_close(follower.weight.data, start + 0.1)
    torch.testing.assert_close(leader.weight.data, start + 1.0)


def test_a_share_of_1_copies_bit_for_bit() -> None:
    leader = nn.Linear(3, 2)
    follower = frozen_copy(leader)
    leader.weight.data += torch.randn(2, 3) * 1e-7
    TargetNetworks([(leader, follower)]).update(1.0)
    assert torch.equal(follower.weight, leader.weight)


def test_statistics_are_copied() -> None:
    leader = nn.BatchNorm1d(2)
    follower = frozen_copy(leader)
    followers = TargetNetworks([(leader, follower)])
    leader(torch.randn(5, 2) + 3.0)
    followers.update(0.1)
    assert leader.running_mean is not None
    assert leader.running_mean.abs().sum() > 0
    assert torch.equal(follower.running_mean, leader.running_mean)


def test_with_nothing_to_follow_nothing_happens() -> None:
    leader = nn.BatchNorm1d(2)
    before = {name: value.clone() for name, value in leader.state_dict().items()}
    for pairs in ([], [(leader, None)]):
        TargetNetworks(pairs).update(0.5)
        TargetNetworks(pairs).update(1.0)
    assert all(torch.equal(value, before[name]) for name, value in leader.state_dict().items())
