"""Algorithms take no action that is not allowed, neither as they act nor in what they learn from.

Networks have weights, and what is forbidden is what they prefer: an algorithm that ignores a mask is caught.
"""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor

from recollect import keys
from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.errors import ConfigError

NUM_ACTIONS, ROWS = 4, 40
OBS = Box(-1.0, 1.0, (3,), np.float32)
MASKED = [name for name, algorithm in ALGORITHMS.items() if algorithm.masks_actions]
each_algorithm = pytest.mark.parametrize("name", MASKED)


def masked_space(num_entries: int) -> Dict:
    return Dict({"observation": OBS, keys.ACTION_MASK: MultiBinary(num_entries)})


def make_algo(name: str, action_space: Any = None, **options: Any) -> Any:
    """An algorithm whose targets differ from its networks, with a body that has weights."""
    space = Discrete(NUM_ACTIONS) if action_space is None else action_space
    num_entries = {Discrete: NUM_ACTIONS, MultiDiscrete: 5, MultiBinary: 4}[type(space)]
    factory = ALGORITHMS[name].create_factory(max_grad_norm=None, **options)
    actor_class = OnPolicyActor if ALGORITHMS[name].is_on_policy else OffPolicyActor
    networks = {"hidden_sizes": (8,), "feature_sizes": (5,), "seed": 1}
    actor = actor_class.create_factory(masked_space(num_entries), space, factory, **networks)("cpu")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in actor.parameters():
            weight.add_(0.5 * torch.randn(weight.shape, generator=generator))
    return factory("cpu", actor, None)


def draw_obs(masks: Tensor, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"observation": torch.randn(len(masks), 3, generator=generator), keys.ACTION_MASK: masks}


def draw_masks(seed: int = 0, num_entries: int = NUM_ACTIONS) -> Tensor:
    """Masks that allow one action or more."""
    generator = torch.Generator().manual_seed(seed)
    masks = torch.randint(0, 2, (ROWS, num_entries), generator=generator, dtype=torch.int8)
    masks[torch.arange(ROWS), torch.randint(num_entries, (ROWS,), generator=generator)] = 1
    return masks


def features_of(algo: Any, obs: dict[str, Tensor], *, target: bool = False) -> Tensor:
    none = torch.zeros(ROWS, 1)
    body = algo.actor.target_body if target else algo.actor.body
    features: Tensor = body(obs["observation"], none, none)[0]
    return features


def act(algo: Any, obs: dict[str, Tensor], *, deterministic: bool = False) -> Tensor:
    action: Tensor = algo.acting_step(obs, torch.zeros(ROWS, 1), torch.ones(ROWS, 1), deterministic)[0]
    return action


def are_allowed(masks: Tensor, action: Tensor) -> bool:
    return bool(masks.gather(1, action).all())


@each_algorithm
def test_forbidden_actions_are_never_taken(name: str) -> None:
    algo = make_algo(name)
    masks = draw_masks()
    obs = draw_obs(masks)
    free = act(algo, draw_obs(torch.ones_like(masks)), deterministic=True)
    assert not are_allowed(masks, free), "the mask forbids nothing that the networks prefer"
    taken = act(algo, obs, deterministic=True)
    assert are_allowed(masks, taken)
    preferred = masks.gather(1, free).bool()
    assert torch.equal(taken[preferred], free[preferred])
    drawn = [act(algo, obs) for _ in range(20)]
    assert all(are_allowed(masks, action) for action in drawn)
    assert len({tuple(action.flatten().tolist()) for action in drawn}) > 1


@each_algorithm
def test_networks_do_not_see_the_mask(name: str) -> None:
    algo = make_algo(name)
    obs = draw_obs(draw_masks())
    none = torch.zeros(ROWS, 1)
    assert torch.equal(algo.actor.encode(obs, none, none)[0], features_of(algo, obs))
    assert algo.actor.body.out_features == 5


def test_random_actions_are_uniform_among_those_allowed() -> None:
    actor = make_algo("ddqn").actor
    obs = draw_obs(torch.tensor([[1, 0, 1, 1]] * ROWS, dtype=torch.int8))
    drawn = torch.cat([actor.random_actions(ROWS, obs) for _ in range(100)]).flatten()
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    assert shares[1] == 0
    torch.testing.assert_close(shares[[0, 2, 3]], torch.full((3,), 1 / 3), atol=0.05, rtol=0)


def test_random_actions_with_everything_allowed_are_those_without_a_mask() -> None:
    first, second = make_algo("ddqn").actor, make_algo("ddqn").actor
    obs = draw_obs(torch.ones(ROWS, NUM_ACTIONS, dtype=torch.int8))
    assert torch.equal(first.random_actions(ROWS, obs), second.random_actions(ROWS))


def make_batch(algo: Any, masks: Tensor, next_masks: Tensor) -> dict[str, Any]:
    """Transitions, the last of which terminates where nothing is allowed any more."""
    generator = torch.Generator().manual_seed(7)
    discount = torch.full((ROWS, 1), 0.9)
    discount[-1] = 0.0
    next_masks[-1] = 0
    obs = draw_obs(masks)
    return {
        keys.OBS: obs,
        keys.NEXT_OBS: draw_obs(next_masks, seed=1),
        keys.ACTION: algo.actor.random_actions(ROWS, obs),
        keys.REWARD: torch.randn(ROWS, 1, generator=generator),
        keys.DISCOUNT: discount,
    }


def test_ddqn_bootstraps_from_the_best_allowed_action() -> None:
    algo = make_algo("ddqn")
    batch = make_batch(algo, draw_masks(), draw_masks(seed=5))
    _, info = algo.compute_gradients(batch)
    masks = batch[keys.NEXT_OBS][keys.ACTION_MASK]
    with torch.no_grad():
        q_t = algo.critics(features_of(algo, batch[keys.OBS]))[0].gather(1, batch[keys.ACTION])
        q_tp1 = algo.critics(features_of(algo, batch[keys.NEXT_OBS]))[0]
        q_tp1_target = algo.target_critics(features_of(algo, batch[keys.NEXT_OBS], target=True))[0]
    for row in range(ROWS):
        allowed = [action for action in range(NUM_ACTIONS) if masks[row, action]] or [0]
        best = max(allowed, key=lambda action, row=row: float(q_tp1[row, action]))
        target = batch[keys.REWARD][row] + batch[keys.DISCOUNT][row] * q_tp1_target[row, best]
        torch.testing.assert_close(info[keys.ALGORITHM][keys.ERRORS][row], (target - q_t[row]).abs())
    assert not masks[:-1].gather(1, q_tp1[:-1].argmax(1, keepdim=True)).all(), "no mask forbids what is best"


def test_discrete_sac_expects_over_allowed_actions() -> None:
    algo = make_algo("sac-discrete", temperature=0.3)
    batch = make_batch(algo, draw_masks(), draw_masks(seed=5))
    _, info = algo.compute_gradients(batch)
    told = info[keys.ALGORITHM]
    masks, next_masks = (batch[key][keys.ACTION_MASK].bool() for key in (keys.OBS, keys.NEXT_OBS))
    with torch.no_grad():
        features, next_features = features_of(algo, batch[keys.OBS]), features_of(algo, batch[keys.NEXT_OBS])
        q_t = algo.critics(features)
        q_tp1 = algo.target_critics(features_of(algo, batch[keys.NEXT_OBS], target=True)).amin(0)
        raw, next_raw = algo.policy.network(features), algo.policy.network(next_features)
    policy_losses, entropies = [], []
    for row in range(ROWS):
        chosen = masks[row]
        log_probs = raw[row][chosen].log_softmax(-1)
        policy_losses.append((log_probs.exp() * (0.3 * log_probs - q_t.amin(0)[row][chosen])).sum())
        entropies.append(-(log_probs.exp() * log_probs).sum())
        target = batch[keys.REWARD][row]
        if next_masks[row].any():
            next_log_probs = next_raw[row][next_masks[row]].log_softmax(-1)
            value = (next_log_probs.exp() * (q_tp1[row][next_masks[row]] - 0.3 * next_log_probs)).sum()
            target = target + batch[keys.DISCOUNT][row] * value
        error = (target - q_t[:, row].gather(1, batch[keys.ACTION][row].expand(2, 1))).abs().mean()
        torch.testing.assert_close(told[keys.ERRORS][row, 0], error, rtol=1e-4, atol=1e-5)
    assert told["loss_pi"] == pytest.approx(float(torch.stack(policy_losses).mean()), rel=1e-4)
    entropy = float(torch.stack(entropies).mean())
    assert told["entropy"] == pytest.approx(entropy, rel=1e-4)
    # The target entropy is half of what a uniform policy has among the allowed actions.
    target_entropy = 0.5 * float(masks.sum(1).float().log().mean())
    log_temperature = algo.multipliers["log_temperature"]
    assert float(log_temperature.grad) == pytest.approx(-(target_entropy - entropy), rel=1e-3)


ACTIONS = {"discrete": Discrete(NUM_ACTIONS), "multi-discrete": MultiDiscrete([3, 2]), "multi-binary": MultiBinary(2)}
ALLOWED = {"discrete": [1, 0, 1, 0], "multi-discrete": [0, 1, 1, 1, 0], "multi-binary": [1, 1, 0, 1]}
# Raw outputs of the policy's network that each of the actions below has, and those among which it is chosen.
COUNTS = {"discrete": [4], "multi-discrete": [3, 2], "multi-binary": [2, 2]}


def log_prob_by_hand(kind: str, outputs: Tensor, action: list[int]) -> tuple[Tensor, Tensor]:
    """Log-probability of an action and entropy of a policy, choice by choice, from one row of the network."""
    log_prob, entropy, start = torch.zeros(()), torch.zeros(()), 0
    for choice, count in enumerate(COUNTS[kind]):
        allowed = [number for number in range(count) if ALLOWED[kind][start + number]]
        if kind == "multi-binary":
            logits = torch.stack([torch.zeros(()), outputs[choice]])
        else:
            most = max(COUNTS[kind])
            logits = outputs[choice * most : choice * most + count]
        log_probs = logits[allowed].log_softmax(-1)
        log_prob = log_prob + log_probs[allowed.index(action[choice])]
        entropy = entropy - (log_probs.exp() * log_probs).sum()
        start += count
    return log_prob, entropy


@pytest.mark.parametrize("kind", ACTIONS)
def test_ppo_knows_how_likely_actions_were_among_those_allowed(kind: str) -> None:
    algo = make_algo("ppo", ACTIONS[kind])
    obs = draw_obs(torch.tensor([ALLOWED[kind]] * ROWS, dtype=torch.int8))
    none = torch.zeros(ROWS, 1)
    action, _, _, other = algo.acting_step(obs, none, none)
    with torch.no_grad():
        outputs = algo.policy.network(features_of(algo, obs))
    by_hand = [log_prob_by_hand(kind, outputs[row], action[row].tolist()) for row in range(ROWS)]
    log_probs = torch.stack([log_prob for log_prob, _ in by_hand])[:, None]
    torch.testing.assert_close(other[keys.LOG_PROB], log_probs, rtol=1e-4, atol=1e-5)
    batch = {key: torch.randn(ROWS, 1) for key in (keys.VALUE, keys.ADVANTAGE, keys.RETURN)}
    batch |= {keys.OBS: obs, keys.ACTION: action, keys.LOG_PROB: other[keys.LOG_PROB]}
    torch.testing.assert_close(algo.evaluate_actions(batch)[1], log_probs, rtol=1e-4, atol=1e-5)
    _, info = algo.compute_gradients(batch)
    assert info[keys.ALGORITHM]["kl"] == pytest.approx(0.0, abs=1e-6)
    entropy = float(torch.stack([entropy for _, entropy in by_hand]).mean())
    assert info[keys.ALGORITHM]["entropy"] == pytest.approx(entropy, rel=1e-4)


def test_an_algorithm_that_cannot_mask_is_refused() -> None:
    class Blind(ALGORITHMS["ddqn"]):  # type: ignore[misc,name-defined]
        masks_actions = False

    actor = OffPolicyActor.create_factory(masked_space(NUM_ACTIONS), Discrete(NUM_ACTIONS), Blind)("cpu")
    with pytest.raises(ConfigError, match="DDQN cannot leave out actions"):
        Blind("cpu", actor, None)
