"""Targets, losses and gradients of every off-policy algorithm, computed a second time from their definitions.

The body has weights, and every target network differs from the network that it tracks, so that each value has to come
from the right one. Rows have importance weights, intrinsic rewards and discounts of their own.
"""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional

from recollect import keys
from recollect.agent.actors.networks.mlp.layers import BatchRenorm, running_statistics
from tests.unit.agent.algorithms.off_policy.agents import OFF_POLICY, Agent, make_agent, make_batch

NUM_SEQ, OVERLAP, TRAINED, N_STEP = 9, 2, 4, 2
POSITIONS = OVERLAP + TRAINED + N_STEP
SEED = 5
BODIES: dict[str, dict[str, Any]] = {
    "layers": {"feature_sizes": (5,)},
    "memory": {"memory": "gru", "sequence_overlap": OVERLAP},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "ddqn": {"huber_delta": 0.5},
    "qr-dqn": {"huber_delta": 0.5, "num_quantiles": 5},
    "c51": {"num_atoms": 7, "lowest_return": -2.0, "highest_return": 3.0},
    "rainbow": {"num_atoms": 7, "lowest_return": -2.0, "highest_return": 3.0, "noisy_std": 0.5},
    "tqc": {"num_critics": 3, "num_quantiles": 5, "huber_delta": 0.5, "temperature": 0.3, "target_entropy": -0.7},
    "redq": {"num_critics": 5, "policy_delay": 1, "temperature": 0.3, "target_entropy": -0.7},
    "droq": {"num_critics": 3, "policy_delay": 1, "temperature": 0.3, "target_entropy": -0.7, "dropout": 0.4},
    "rlpd": {"num_critics": 5, "policy_delay": 1, "temperature": 0.3, "target_entropy": -0.7},
    "crossq": {"num_critics": 3, "policy_delay": 1, "temperature": 0.3, "target_entropy": -0.7},
    "td3": {"num_critics": 3, "policy_delay": 1, "target_noise_std": 0.4, "target_noise_limit": 0.3},
    "td3-bc": {
        "num_critics": 3,
        "policy_delay": 1,
        "target_noise_std": 0.4,
        "target_noise_limit": 0.3,
        "bc_alpha": 1.5,
    },
    "iql": {"num_critics": 3, "expectile": 0.8, "advantage_scale": 2.0, "largest_weight": 1.5},
    "sac": {"num_critics": 3, "temperature": 0.3, "target_entropy": -0.7},
    "sac-discrete": {"num_critics": 3, "temperature": 0.3, "target_entropy": 0.9},
    "mpo": {
        "num_critics": 3,
        "num_samples": 7,
        "epsilon": 0.2,
        "epsilon_mean": 0.05,
        "epsilon_std": 0.02,
        "temperature": 0.7,
        "multiplier_mean": 2.0,
        "multiplier_std": 5.0,
    },
}


class Rows(NamedTuple):
    """What the losses are made of, one row for each transition `[rows, ...]`."""

    features: Tensor
    target_features: Tensor
    next_features: Tensor
    target_next_features: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    weights: Tensor


class Expected(NamedTuple):
    """TD errors `[num_critics, rows, 1]`, the loss of each, the policy's loss, multipliers' gradients, and reports."""

    errors: Tensor
    critic_losses: Tensor
    policy_loss: Tensor | None = None
    multipliers: dict[str, Tensor] = {}
    scalars: dict[str, Tensor] = {}


def make_moved_agent(name: str, body: str) -> Agent:
    """An agent none of whose target networks is like the trained one."""
    options = {"max_grad_norm": None, "intrinsic_weight": 0.5, **OPTIONS.get(name, {})}
    agent = make_agent(name, actor_options=BODIES[body], **options)
    generator = Generator().manual_seed(11)
    with torch.no_grad():
        for key, weight in agent.actor.named_parameters():
            if key.startswith("target_"):
                weight.add_(0.5 * torch.randn(weight.shape, generator=generator))
    return agent


def make_sequences(agent: Agent) -> dict[str, Any]:
    """Sequences with burn-in, windows of one and two steps, and episodes that begin on the way."""
    shape, generator = (NUM_SEQ, POSITIONS), Generator().manual_seed(2)
    rows = make_batch(agent, NUM_SEQ * POSITIONS)
    batch = {key: values.unflatten(0, shape) for key, values in rows.items()}
    mask = torch.zeros(*shape, 1)
    mask[:, OVERLAP : OVERLAP + TRAINED] = 1.0
    done = torch.zeros(*shape, 1)
    done[0, 1] = done[1, 4] = 1.0
    n_step = torch.ones(*shape, 1, dtype=torch.int64)
    n_step[:, ::2] = N_STEP
    states = torch.randn(NUM_SEQ, agent.actor.recurrent_size, generator=generator)
    return batch | {keys.MASK: mask, keys.DONE: done, keys.N_STEP: n_step, keys.RHS: states}


def make_full_batch(agent: Agent, body: str) -> dict[str, Any]:
    generator = Generator().manual_seed(1)
    batch = make_sequences(agent) if body == "memory" else make_batch(agent, 30)
    batch[keys.NEXT_OBS] = 3.0 * batch[keys.NEXT_OBS]
    reward = batch[keys.REWARD]
    batch[keys.REWARD] = 3.0 * reward
    batch[keys.DISCOUNT] = batch[keys.DISCOUNT] * torch.rand(reward.shape, generator=generator)
    batch[keys.IREWARD] = torch.randn(reward.shape, generator=generator)
    batch[keys.PER_WEIGHTS] = 0.1 + torch.rand(len(reward), 1, generator=generator)
    return batch


def read_steps(agent: Agent, batch: dict[str, Any]) -> Rows:
    body, target_body = agent.actor.body, agent.actor.target_body or agent.actor.body
    none = torch.zeros(len(batch[keys.OBS]), 1)
    return Rows(
        body(batch[keys.OBS], none, none)[0],
        target_body(batch[keys.OBS], none, none)[0].detach(),
        body(batch[keys.NEXT_OBS], none, none)[0].detach(),
        target_body(batch[keys.NEXT_OBS], none, none)[0].detach(),
        batch[keys.ACTION],
        batch[keys.REWARD] + 0.5 * batch[keys.IREWARD],
        batch[keys.DISCOUNT],
        batch[keys.PER_WEIGHTS],
    )


def walk(body: Any, batch: dict[str, Any], row: int) -> tuple[Tensor, Tensor]:
    """Features of the trained steps of a sequence, and of the observations after their windows, step by step."""
    state, features, states, none = batch[keys.RHS][row][None], [], [], torch.zeros(1, 1)
    for position in range(POSITIONS):
        if position == OVERLAP:
            state = state.detach()
        feature, state = body(batch[keys.OBS][row, position][None], state, batch[keys.DONE][row, position][None])
        features.append(feature)
        states.append(state.detach())
    after = []
    for position in range(OVERLAP, OVERLAP + TRAINED):
        last = position + int(batch[keys.N_STEP][row, position]) - 1
        after.append(body(batch[keys.NEXT_OBS][row, position][None], states[last], none)[0].detach())
    return torch.cat(features[OVERLAP : OVERLAP + TRAINED]), torch.cat(after)


def read_sequences(agent: Agent, batch: dict[str, Any]) -> Rows:
    online = [walk(agent.actor.body, batch, row) for row in range(NUM_SEQ)]
    delayed = [walk(agent.actor.target_body or agent.actor.body, batch, row) for row in range(NUM_SEQ)]

    def trained(key: str) -> Tensor:
        values: Tensor = batch[key][:, OVERLAP : OVERLAP + TRAINED]
        return values.flatten(0, 1)

    return Rows(
        torch.cat([features for features, _ in online]),
        torch.cat([features for features, _ in delayed]).detach(),
        torch.cat([after for _, after in online]),
        torch.cat([after for _, after in delayed]),
        trained(keys.ACTION),
        trained(keys.REWARD) + 0.5 * trained(keys.IREWARD),
        trained(keys.DISCOUNT),
        batch[keys.PER_WEIGHTS].repeat_interleave(TRAINED, 0),
    )


def squared(errors: Tensor) -> Tensor:
    return 0.5 * errors**2


def ddqn(actor: Any, rows: Rows, generator: Generator) -> Expected:
    best = actor.critics(rows.next_features)[0].argmax(-1, keepdim=True)
    assert (actor.critics(rows.target_next_features)[0].argmax(-1, keepdim=True) != best).any(), "weak test"
    value = actor.target_critics(rows.target_next_features)[0].gather(-1, best)
    taken = actor.critics(rows.features)[0].gather(-1, rows.action)
    errors = (rows.reward + rows.discount * value).detach() - taken
    losses = functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=0.5)
    return Expected(errors[None], losses[None])


def ddpg(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action = actor.target_policy(rows.target_next_features).mode()
    value = actor.target_critics(rows.target_next_features, action)[0]
    errors = (rows.reward + rows.discount * value).detach() - actor.critics(rows.features, rows.action)
    return Expected(errors, squared(errors), deterministic_policy_loss(actor, rows))


def td3(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action = actor.target_policy(rows.target_next_features).mode()
    noise = torch.empty_like(action).normal_(std=0.4, generator=generator).clamp(-0.3, 0.3)
    both = actor.target_critics(rows.target_next_features, (action + noise).clamp(-1, 1))
    target = (rows.reward + rows.discount * both.min(0).values).detach()
    errors = target - actor.critics(rows.features, rows.action)
    return Expected(errors, squared(errors), deterministic_policy_loss(actor, rows))


def td3_bc(actor: Any, rows: Rows, generator: Generator) -> Expected:
    features = rows.features.detach()
    action = actor.policy(features).mode()
    values = actor.critics(features, action)[0]
    distance = ((action - rows.action) ** 2).mean(1, keepdim=True)
    policy_loss = (rows.weights * (distance - 1.5 * values / values.abs().mean().detach())).mean()
    errors, losses, *_ = td3(actor, rows, generator)
    return Expected(errors, losses, policy_loss)


def iql(actor: Any, rows: Rows, generator: Generator) -> Expected:
    value = actor.critics.state_value(rows.next_features)
    errors = (rows.reward + rows.discount * value).detach() - actor.critics(rows.features, rows.action)
    lowest = actor.target_critics(rows.target_features, rows.action).min(0).values.detach()
    advantage = lowest - actor.critics.state_value(rows.features)
    assert 0 < (advantage > 0).sum() < len(advantage), "weak test"
    share = torch.where(advantage > 0, 0.8, 0.2)
    weights = torch.exp(2.0 * advantage.detach())
    assert (weights > 1.5).any(), "weak test"
    policy = actor.policy(rows.features.detach())
    log_prob = Normal(policy.mean, policy.std.expand_as(policy.mean)).log_prob(rows.action).sum(1, keepdim=True)
    policy_loss = -(rows.weights * weights.clamp(max=1.5) * log_prob).mean()
    losses = torch.cat([squared(errors), (share * advantage**2)[None]])
    return Expected(errors, losses, policy_loss)


def deterministic_policy_loss(actor: Any, rows: Rows) -> Tensor:
    """The policy follows the first critic, at features that it does not train."""
    features = rows.features.detach()
    return -(rows.weights * actor.critics(features, actor.policy(features).mode())[0]).mean()


def sac(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action, log_prob = actor.policy(rows.next_features).sample_with_log_prob(generator)
    value = actor.target_critics(rows.target_next_features, action).min(0).values - 0.3 * log_prob
    errors = (rows.reward + rows.discount * value).detach() - actor.critics(rows.features, rows.action)
    return soft_policy(actor, rows, generator, errors, squared(errors), lambda values: values.min(0).values)


def redq(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action, log_prob = actor.policy(rows.next_features).sample_with_log_prob(generator)
    values = actor.target_critics(rows.target_next_features, action)
    one, other = torch.randperm(5, generator=generator)[:2]
    value = torch.minimum(values[one], values[other]) - 0.3 * log_prob
    errors = (rows.reward + rows.discount * value).detach() - actor.critics(rows.features, rows.action)
    return soft_policy(actor, rows, generator, errors, squared(errors), lambda values: values.mean(0))


def droq(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action, log_prob = actor.policy(rows.next_features).sample_with_log_prob(generator)
    value = actor.target_critics(rows.target_next_features, action).min(0).values - 0.3 * log_prob
    errors = (rows.reward + rows.discount * value).detach() - actor.critics(rows.features, rows.action)
    return soft_policy(actor, rows, generator, errors, squared(errors), lambda values: values.mean(0))


def crossq(actor: Any, rows: Rows, generator: Generator) -> Expected:
    with running_statistics(actor.policy):
        action, log_prob = actor.policy(rows.next_features).sample_with_log_prob(generator)
    both = actor.critics(torch.cat([rows.features, rows.next_features]), torch.cat([rows.action, action.detach()]))
    taken, following = both[:, : len(action)], both[:, len(action) :]
    value = following.min(0).values - 0.3 * log_prob
    errors = (rows.reward + rows.discount * value).detach() - taken
    for norm in (part for part in actor.critics.modules() if isinstance(part, BatchRenorm)):
        norm.end()
    return soft_policy(actor, rows, generator, errors, squared(errors), lambda values: values.min(0).values)


def tqc(actor: Any, rows: Rows, generator: Generator) -> Expected:
    action, log_prob = actor.policy(rows.next_features).sample_with_log_prob(generator)
    atoms = actor.target_critics(rows.target_next_features, action)
    kept = [sorted(atoms[:, row].flatten().tolist())[:-6] for row in range(len(action))]  # 2 dropped for each critic
    target = (rows.reward + rows.discount * (torch.tensor(kept) - 0.3 * log_prob)).detach()
    taken = actor.critics(rows.features, rows.action)
    losses = torch.stack([quantile_losses(each, target).mean(1, keepdim=True) for each in taken])
    errors = target.mean(1, keepdim=True) - taken.mean(2, keepdim=True)
    return soft_policy(actor, rows, generator, errors, losses, lambda values: values.mean((0, 2)).unsqueeze(1))


def soft_policy(
    actor: Any,
    rows: Rows,
    generator: Generator,
    errors: Tensor,
    losses: Tensor,
    climbed: Callable[[Tensor], Tensor],
) -> Expected:
    """What policy and temperature do, whatever the critics' losses are."""
    features = rows.features.detach()
    action, log_prob = actor.policy(features).sample_with_log_prob(generator)
    gains = climbed(actor.critics(features, action)) - 0.3 * log_prob
    # d/d(log temperature): the temperature falls while the entropy, -log_prob, is above its target of -0.7.
    slope = -log_prob.detach().mean() - -0.7
    return Expected(errors, losses, -(rows.weights * gains).mean(), {"log_temperature": slope})


def quantile_losses(quantiles: Tensor, target: Tensor) -> Tensor:
    """Losses `[rows, num_quantiles]` of equation 10 of Dabney et al., one quantile at a time, with a kappa of 0.5."""
    num, columns = quantiles.shape[1], []
    for index in range(num):
        errors, share = target - quantiles[:, index : index + 1], (index + 0.5) / num
        sizes = torch.where(errors.abs() <= 0.5, errors**2 / 2, 0.5 * (errors.abs() - 0.25)) / 0.5
        columns.append((torch.where(errors < 0, 1 - share, share) * sizes).mean(1))
    return torch.stack(columns, 1)


def qr_dqn(actor: Any, rows: Rows, generator: Generator) -> Expected:
    every = torch.arange(len(rows.action))
    best = actor.critics(rows.next_features)[0].mean(-1).argmax(-1)
    assert (actor.target_critics(rows.target_next_features)[0].mean(-1).argmax(-1) != best).any(), "weak test"
    target = rows.reward + rows.discount * actor.target_critics(rows.target_next_features)[0][every, best]
    taken = actor.critics(rows.features)[0][every, rows.action[:, 0]]
    errors = target.detach().mean(1, keepdim=True) - taken.mean(1, keepdim=True)
    return Expected(errors[None], quantile_losses(taken, target.detach()).sum(1, keepdim=True)[None])


def c51(actor: Any, rows: Rows, generator: Generator) -> Expected:
    every, grid = torch.arange(len(rows.action)), torch.linspace(-2.0, 3.0, 7)
    best = (actor.critics(rows.next_features)[0].softmax(-1) * grid).sum(-1).argmax(-1)
    probs = actor.target_critics(rows.target_next_features)[0].softmax(-1)[every, best].detach()
    target = torch.zeros_like(probs)
    for row in range(len(probs)):  # algorithm 1 of Bellemare et al.
        for atom in range(7):
            place = float((rows.reward[row] + rows.discount[row] * grid[atom]).clamp(-2, 3) + 2) / (5 / 6)
            low, high = math.floor(place), math.ceil(place)
            target[row, low] += probs[row, atom] * (1.0 if low == high else high - place)
            target[row, high] += probs[row, atom] * (0.0 if low == high else place - low)
    logits = actor.critics(rows.features)[0][every, rows.action[:, 0]].log_softmax(-1)
    losses = -(target * logits).sum(1, keepdim=True)
    divergence = (target * (target.clamp(min=1e-30).log() - logits)).sum(1, keepdim=True)
    return Expected(divergence[None], losses[None])


def sac_discrete(actor: Any, rows: Rows, generator: Generator) -> Expected:
    policy = torch.distributions.Categorical(logits=actor.policy(rows.next_features).logits)
    value = actor.target_critics(rows.target_next_features).min(0).values
    soft = (policy.probs * value).sum(1, keepdim=True) + 0.3 * policy.entropy()[:, None]
    values = actor.critics(rows.features)
    taken = torch.stack([q.gather(1, rows.action) for q in values])
    errors = (rows.reward + rows.discount * soft).detach() - taken
    now = torch.distributions.Categorical(logits=actor.policy(rows.features.detach()).logits)
    gains = (now.probs * values.min(0).values.detach()).sum(1) + 0.3 * now.entropy()
    slope = now.entropy().detach().mean() - 0.9
    return Expected(errors, squared(errors), -(rows.weights[:, 0] * gains).mean(), {"log_temperature": slope})


def mpo(actor: Any, rows: Rows, generator: Generator) -> Expected:
    old, new = actor.target_policy(rows.target_next_features), actor.policy(rows.next_features)
    samples = old.mean + old.std * torch.empty(7, *old.mean.shape).normal_(generator=generator)
    each = [actor.target_critics(rows.target_next_features, action.tanh()).min(0).values for action in samples]
    values = torch.stack(each).detach()  # [num_samples, rows, 1]
    errors = rows.reward + rows.discount * values.mean(0) - actor.critics(rows.features, rows.action)
    with_mean, with_std = Independent(Normal(new.mean, old.std), 1), Independent(Normal(old.mean, new.std), 1)
    fits = (with_mean.log_prob(samples) + with_std.log_prob(samples)).unsqueeze(-1)
    fit = ((values / 0.7).softmax(0) * fits).sum(0)
    acting = Independent(Normal(old.mean, old.std), 1)
    kl_mean, kl_std = kl_divergence(acting, with_mean).mean(), kl_divergence(acting, with_std).mean()
    loss_pi = -(rows.weights * fit).mean()
    policy_loss = loss_pi + 2.0 * kl_mean + 5.0 * kl_std
    starts = {"temperature": 0.7, "mean": 2.0, "std": 5.0}
    temperature, mean, std = multipliers = [torch.tensor(start, requires_grad=True) for start in starts.values()]
    dual = temperature * (0.2 + (values / temperature).exp().mean(0).log())
    loss = (rows.weights * dual).mean() + mean * (0.05 - kl_mean.detach()) + std * (0.02 - kl_std.detach())
    # d/d(raw) of what softplus(raw) is: its derivative is 1 - exp(-softplus(raw)).
    slopes = zip(starts.items(), torch.autograd.grad(loss, multipliers), strict=True)
    chained = {name: slope * (1 - math.exp(-start)) for (name, start), slope in slopes}
    return Expected(
        errors, squared(errors), policy_loss, chained, {"loss_pi": loss_pi, "kl_mean": kl_mean, "kl_std": kl_std}
    )


DEFINITIONS: dict[str, Callable[[Any, Rows, Generator], Expected]] = {
    "ddqn": ddqn,
    "ddpg": ddpg,
    "td3": td3,
    "td3-bc": td3_bc,
    "iql": iql,
    "sac": sac,
    "sac-discrete": sac_discrete,
    "mpo": mpo,
    "redq": redq,
    "droq": droq,
    "rlpd": redq,  # with other critics
    "crossq": crossq,
    "tqc": tqc,
    "qr-dqn": qr_dqn,
    "c51": c51,
    "rainbow": c51,
}


def gradients_of(agent: Agent, expected: Expected, rows: Rows) -> dict[str, Tensor]:
    """Gradients by name: critics and body descend the critics' loss, the policy its own, and nothing else moves."""
    loss_q = (rows.weights * expected.critic_losses).mean(1).sum()
    losses = {"critics": loss_q, "body": loss_q, "policy": expected.policy_loss}
    found = {}
    for part, loss in losses.items():
        module = getattr(agent.actor, part)
        if module is not None and loss is not None:
            names, weights = zip(*module.named_parameters(prefix=part), strict=True)
            found |= dict(zip(names, torch.autograd.grad(loss, weights, retain_graph=True), strict=True))
    return found


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_losses_and_gradients_are_those_of_the_definition(name: str, body: str) -> None:
    agent = make_moved_agent(name, body)
    batch = make_full_batch(agent, body)
    rows = read_sequences(agent, batch) if body == "memory" else read_steps(agent, batch)
    before, generator = copy.deepcopy(agent.actor.state_dict()), Generator().manual_seed(SEED)
    with agent.actor.learning(generator):  # noise on weights is drawn first
        expected = DEFINITIONS[name](agent.actor, rows, generator)
    wanted = gradients_of(agent, expected, rows)
    agent.actor.load_state_dict(before)
    agent.algo.generator.manual_seed(SEED)
    _, info = agent.algo.compute_gradients(batch)
    found = {key: weight.grad for key, weight in agent.actor.named_parameters() if weight.grad is not None}
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    scalars = info[keys.ALGORITHM]
    loss_q = (rows.weights * expected.critic_losses).mean(1).sum()
    policy = {} if expected.policy_loss is None else {"loss_pi": expected.policy_loss}
    for key, value in ({"loss_q": loss_q} | policy | expected.scalars).items():
        assert scalars[key] == pytest.approx(value.item(), rel=1e-4, abs=1e-6), key
    errors = scalars[keys.ERRORS].reshape(-1, 1)
    torch.testing.assert_close(errors, expected.errors.detach().abs().mean(0), rtol=1e-4, atol=1e-5)
    slopes = {key: weight.grad for key, weight in agent.algo.multipliers.items()}
    torch.testing.assert_close(slopes, expected.multipliers, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_every_target_network_counts_in_the_target(name: str) -> None:
    agent = make_moved_agent(name, "layers")
    batch = make_full_batch(agent, "layers")

    def loss() -> float:
        agent.algo.generator.manual_seed(SEED)
        found: float = agent.algo.compute_gradients(batch)[1][keys.ALGORITHM]["loss_q"]
        return found

    targets = [part for part in ("target_body", "target_policy", "target_critics") if getattr(agent.actor, part)]
    for part in targets:
        before = loss()
        with torch.no_grad():
            for weight in getattr(agent.actor, part).parameters():
                weight.mul_(-2.0)
        assert loss() != pytest.approx(before, rel=1e-4), part
    assert targets == (["target_body", *targets[1:-1], "target_critics"] if agent.actor.plan.has_targets else [])
