"""Batches as off-policy algorithms need them: one row a transition, whether they were drawn as steps or sequences."""

import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.base import NO_STATE, Actor
from recollect.agent.actors.spaces import map_observation
from recollect.roles import Batch, Observation


def read_transitions(actor: Actor, batch: Batch, intrinsic_weight: float = 1.0) -> "Transitions":
    """Encode a batch of a storage.

    Parameters
    ----------
    actor : Actor
        Whose body turns observations into features.
    batch : dict of tensors
        Steps `[batch, ...]`, or sequences `[num_seq, length + n_step, ...]` with their mask.
    intrinsic_weight : float
        Weight of intrinsic rewards, where there are any.
    """
    return (SequenceTransitions if keys.MASK in batch else Transitions)(actor, batch, intrinsic_weight)


class Transitions:
    """The transitions of a batch, one per row; without memory, if they were drawn one by one.

    Attributes
    ----------
    features : tensor `[rows, F]`
        What the body makes of the observations; gradients flow into it.
    action : tensor `[rows, ...]`
    reward, discount : tensor `[rows, 1]`
        A target is `reward + discount * V(next)`, and nothing else.
    weights : tensor `[rows, 1]` or None
        Importance weights of prioritised draws.
    """

    def __init__(self, actor: Actor, batch: Batch, intrinsic_weight: float) -> None:
        self._actor = actor
        self._batch = batch
        self._next: dict[bool, Tensor] = {}
        self.action = self._rows(batch[keys.ACTION])
        self.discount = self._rows(batch[keys.DISCOUNT])
        self.reward = actor.normalise_reward(self._rows(batch[keys.REWARD]).float())
        if keys.IREWARD in batch:
            self.reward = self.reward + intrinsic_weight * self._rows(batch[keys.IREWARD]).float()
        self.weights: Tensor | None = batch.get(keys.PER_WEIGHTS)
        self.features = self._encode()

    def next_features(self, *, target: bool) -> Tensor:
        """Features `[rows, F]` of the observations after the windows, from the target body or the trained one."""
        is_target = target and self._actor.target_body is not None
        if is_target not in self._next:
            with torch.no_grad():
                self._next[is_target] = self._encode_next(is_target)
        return self._next[is_target]

    @torch.no_grad()
    def target_features(self) -> Tensor:
        """Features `[rows, F]` of the observations from the target body, if there is one."""
        return self.features.detach() if self._actor.target_body is None else self._encode_target()

    @property
    def mask(self) -> Tensor | None:
        """Which actions were allowed, bool `[rows, num_actions]`; None if all were."""
        return self._mask_in(self._batch[keys.OBS])

    @property
    def next_mask(self) -> Tensor | None:
        """Which actions are allowed after the windows, bool `[rows, num_actions]`; None if all are."""
        return self._mask_in(self._batch[keys.NEXT_OBS])

    def mean(self, losses: Tensor) -> Tensor:
        """Mean of losses `[..., rows, 1]` over the rows, weighted where draws were prioritised, summed over critics."""
        return (losses if self.weights is None else losses * self.weights).sum() / losses.shape[-2]

    def errors(self, errors: Tensor) -> Tensor:
        """Errors `[rows, 1]` in the shape in which the storage takes them."""
        return errors

    def _encode(self) -> Tensor:
        return self._actor.encode(self._actor.to_tensors(self._batch[keys.OBS]), NO_STATE, NO_STATE)[0]

    def _encode_target(self) -> Tensor:
        obs = self._actor.to_tensors(self._batch[keys.OBS])
        return self._actor.encode(obs, NO_STATE, NO_STATE, target=True)[0]

    def _encode_next(self, target: bool) -> Tensor:
        obs = self._actor.to_tensors(self._batch[keys.NEXT_OBS])
        return self._actor.encode(obs, NO_STATE, NO_STATE, target=target)[0]

    def _mask_in(self, obs: Observation) -> Tensor | None:
        mask = self._actor.action_mask(obs)
        return None if mask is None else self._rows(mask)

    def _rows(self, values: Tensor) -> Tensor:
        """Values of the trained transitions `[rows, ...]`, of a key of the batch."""
        return values


class SequenceTransitions(Transitions):
    """Transitions of sequences: the memory is warmed up before the first trained step.

    Hidden states come from an unroll over the stored steps, which resets where an episode begins. One more step,
    from the state after a window to its next observation, gives the features after it. That is right at truncations
    too, where the next observation is not the one of the next stored step.
    """

    def __init__(self, actor: Actor, batch: Batch, intrinsic_weight: float) -> None:
        mask = batch[keys.MASK][0, :, 0].tolist()
        self._begin = mask.index(1.0)
        self._end = self._begin + int(sum(mask))
        self._last = len(mask) - 1
        super().__init__(actor, batch, intrinsic_weight)
        if self.weights is not None:
            self.weights = self.weights.repeat_interleave(self._end - self._begin, 0)

    def errors(self, errors: Tensor) -> Tensor:
        return errors.view(-1, self._end - self._begin)  # [num_seq, trained]

    def _encode(self) -> Tensor:
        self._obs = self._actor.to_tensors(self._batch[keys.OBS])
        stored: Tensor | None = self._batch.get(keys.RHS)  # [num_seq, R], of actors with memory
        self._start = self.reward.new_zeros(len(self._batch[keys.MASK]), 1) if stored is None else stored
        features, states = self._unroll(self._begin, self._end, self._warm_states())
        self._states = states.detach()  # [num_seq, trained, R]
        return features.flatten(0, 1)

    def _encode_target(self) -> Tensor:
        features = self._unroll(0, self._end, self._start, target=True)[0]
        return features[:, self._begin :].flatten(0, 1)

    def _encode_next(self, target: bool) -> Tensor:
        states = self._target_states() if target else self._online_states()
        steps = torch.arange(self._end - self._begin, device=states.device)[None, :, None]
        last = steps + self._trained(self._batch[keys.N_STEP]) - 1  # [num_seq, trained, 1]
        after = states.gather(1, last.expand(-1, -1, states.shape[-1])).flatten(0, 1)  # [rows, R]
        obs = map_observation(self._rows, self._actor.to_tensors(self._batch[keys.NEXT_OBS]))
        return self._actor.encode(obs, after, after.new_zeros(len(after), 1), target=target)[0]

    @torch.no_grad()
    def _warm_states(self) -> Tensor:
        """Hidden states `[num_seq, R]` before the first trained step."""
        return self._unroll(0, self._begin, self._start)[1][:, -1] if self._begin else self._start

    def _target_states(self) -> Tensor:
        """Hidden states of the target body after each step from the first trained one, `[num_seq, positions, R]`."""
        return self._unroll(0, self._last, self._start, target=True)[1][:, self._begin :]

    def _online_states(self) -> Tensor:
        """The same of the trained body; steps after the trained ones only serve windows that reach so far."""
        if self._end == self._last:
            return self._states
        _, behind = self._unroll(self._end, self._last, self._states[:, -1])
        return torch.cat([self._states, behind], 1)

    def _unroll(self, begin: int, end: int, state: Tensor, *, target: bool = False) -> tuple[Tensor, Tensor]:
        obs = map_observation(lambda values: values[:, begin:end], self._obs)
        return self._actor.unroll(obs, state, self._batch[keys.DONE][:, begin:end], target=target)

    def _trained(self, values: Tensor) -> Tensor:
        return values[:, self._begin : self._end]

    def _rows(self, values: Tensor) -> Tensor:
        return self._trained(values).flatten(0, 1)
