import pytest
import torch

from recollect import keys
from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch


def test_policy_and_targets_move_every_other_update() -> None:
    agent = make_agent("td3")
    actor, batch = agent.actor, make_batch(agent)
    moved = []
    for _ in range(4):
        before = {name: weight.clone() for name, weight in actor.named_parameters()}
        agent.algo.compute_gradients(batch)
        agent.algo.apply_gradients()
        moved.append(
            {name.split(".")[0] for name, weight in actor.named_parameters() if (weight != before[name]).any()}
        )
    everything = {"critics", "policy", "target_critics", "target_policy"}
    assert moved == [{"critics"}, everything, {"critics"}, everything]


def test_target_is_the_smaller_value_of_an_action_with_limited_noise() -> None:
    agent = make_agent("td3", target_noise_std=0.4, target_noise_limit=0.3)
    actor, batch = agent.actor, make_batch(agent)
    assert actor.target_policy is not None
    assert actor.target_critics is not None
    agent.algo.generator.manual_seed(5)
    _, info = agent.algo.compute_gradients(batch)
    noise = torch.empty(6, 2).normal_(std=0.4, generator=torch.Generator().manual_seed(5)).clamp(-0.3, 0.3)
    action = (actor.target_policy(batch[keys.NEXT_OBS]).mode() + noise).clamp(-1, 1)
    both = actor.target_critics(batch[keys.NEXT_OBS], action)
    target = batch[keys.REWARD] + batch[keys.DISCOUNT] * torch.minimum(both[0], both[1])
    errors = target - actor.critics(batch[keys.OBS], batch[keys.ACTION])
    assert (both[0] != both[1]).all()
    torch.testing.assert_close(info[keys.ALGORITHM][keys.ERRORS], errors.abs().mean(0).detach())
    assert info[keys.ALGORITHM]["loss_q"] == pytest.approx((0.5 * errors.square()).mean(1).sum().item())


def test_the_first_critic_leads_the_policy() -> None:
    agent = make_agent("td3", policy_delay=1)
    actor, batch = agent.actor, make_batch(agent)
    assert actor.policy is not None
    gradients, _ = agent.algo.compute_gradients(batch)
    loss = -actor.critics(batch[keys.OBS], actor.policy(batch[keys.OBS]).mode())[0].mean()
    expected = torch.autograd.grad(loss, actor.policy_parameters())
    torch.testing.assert_close(tuple(gradients[-len(expected) :]), expected)
