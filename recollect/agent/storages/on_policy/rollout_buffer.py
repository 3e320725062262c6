"""`RolloutBuffer`: what on-policy storages share, from the steps of a rollout to shuffled mini-batches."""

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, cast

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base_buffer import STEP_KEYS, BaseBuffer
from recollect.agent.storages.config import StorageConfig
from recollect.agent.storages.experience.sampling.outputs import Nested, map_arrays, nest
from recollect.agent.storages.experience.sampling.sequences import check_sequence
from recollect.agent.storages.experience.store.experience_store import ONE_STEP
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema.schema_text import sample_of
from recollect.agent.storages.experience.store.sources import check_origin
from recollect.agent.storages.on_policy.rollouts import Picked, Rollout, StepSequences
from recollect.agent.storages.on_policy.time_major import TimeMajorSteps
from recollect.checks import check_count
from recollect.errors import SchemaError, StorageError
from recollect.options import count, option, optional
from recollect.roles import Batch, Info, OnPolicyActor, OnPolicyAlgorithm, RewardsNovelty, Sample

# Steps that the networks see at once when all stored steps are evaluated again.
_EVALUATED_STEPS: Final = 1024


@dataclass(frozen=True)
class RolloutConfig(StorageConfig):
    """Options of every on-policy storage."""

    _: KW_ONLY
    sequence_length: int | None = option(
        None,
        "Most steps of a recurrent actor's sequences, with the actor's sequence_overlap first ones that only warm the "
        "memory up; none for the algorithm's update_every.",
        optional(count),
        changes=True,
    )


class RolloutBuffer(BaseBuffer):
    """Storage for on-policy algorithms: every step is used once an epoch, then all are dropped.

    `before_gradients` computes returns and advantages of what is stored, `generate_batches` deals the
    steps out, and `reset` makes room for the next rollout.

    Parameters
    ----------
    size : int
        Capacity along the time axis, for each source: at least the algorithm's `update_every`.
    device, envs
        As in `BaseBuffer`.
    actor : Actor
        If it `is_recurrent`, batches are sequences.
    algorithm : Algorithm
        Owner of `gamma`; its `next_values` and `evaluate_actions` are asked for values.
    *values, **given
        See `RolloutConfig`.
    """

    storage_tensors = (*STEP_KEYS, keys.VALUE, keys.LOG_PROB)
    # Whether steps of a policy that is older than the present one are learned from correctly.
    takes_older_policies: ClassVar[bool] = False
    config_class: ClassVar[type[RolloutConfig]] = RolloutConfig
    config: RolloutConfig
    sequence_length: int | None
    actor: OnPolicyActor
    algorithm: OnPolicyAlgorithm

    def _make_parts(self) -> None:
        self._rollout: Rollout | None = None
        self._is_stopped = False

    def init_tensors(self, sample: Sample) -> None:
        self._check_keys(sample)
        super().init_tensors(sample)

    def insert_transition(self, sample: Sample) -> None:
        with self._store.lock:
            self._check_keys(sample)
            self._make_room(0, None, 1)
            super().insert_transition(sample)

    def insert_data_slice(self, new_data: Sample, *, source: Hashable = 0, first_step: int | None = None) -> None:
        with self._store.lock:
            self._check_keys(new_data)
            self._make_room(source, check_origin(source, first_step), len(new_data.get(keys.REWARD, ())))
            super().insert_data_slice(new_data, source=source, first_step=first_step)

    def append_piece(self, piece: RingPiece, *, source: Hashable) -> int:
        with self._store.lock:
            self._check_keys(sample_of(piece.schema, self.num_envs))
            self._make_room(source, piece.begins, piece.num_steps)
            return super().append_piece(piece, source=source)

    def before_gradients(self) -> None:
        """Compute returns and advantages of all that is stored; batches are then made of it."""
        with self._store.lock:
            steps = TimeMajorSteps(self._store.ring)
            computed = self._compute(steps)
            self._rollout = Rollout(
                steps.ids,
                {key: steps.in_order(values)[:, None] for key, values in computed.items()},
                self._sequences(steps),
            )
            self._is_stopped = False

    def after_gradients(self, batch: Batch, info: Info) -> Info:
        """Return `info` as it is; if it asks for an early stop, no more batches of this rollout follow."""
        self._is_stopped = self._is_stopped or bool(info.get(keys.ALGORITHM, {}).get(keys.EARLY_STOP, False))
        return info

    def generate_batches(
        self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1, shuffle: bool = True
    ) -> Iterator[Batch]:
        """Yield the mini-batches of `num_epochs` epochs, each of which goes through all steps in a new order.

        There are no more of them after an early stop, and once `reset` lets the steps go.

        Parameters
        ----------
        num_mini_batch : int
            Mini-batches of an epoch, or fewer if there are fewer rows.
        mini_batch_size : int
            Has no effect: all steps are learned from, so an equal share of them makes a mini-batch.
        num_epochs : int
            Number of epochs.
        shuffle : bool
            Go through the steps in random order; else env by env, the oldest first.

        Yields
        ------
        dict
            Tensors `[batch, ...]` by key, with `Return` and `Advantage`; of recurrent actors
            `[num_seq, length, ...]`, with hidden states `[num_seq, ...]` at the start only and a
            `Mask` that is 0 where a shorter sequence is padded, and for the `actor.sequence_overlap`
            steps at most in front that only warm the memory up.
        """
        num_parts, num_epochs = check_count("num_mini_batch", num_mini_batch), check_count("num_epochs", num_epochs)
        if self._rollout is None:
            raise StorageError("returns are not computed yet: call before_gradients after inserting data")
        return self._batches(self._rollout, num_parts, num_epochs, self._rng if shuffle else None)

    @abstractmethod
    def _compute(self, steps: TimeMajorSteps) -> dict[str, torch.Tensor]:
        """What batches have beside the stored columns, by key, `[time, lanes]`; wins over a stored column."""

    def _batches(
        self, rollout: Rollout, num_parts: int, num_epochs: int, rng: np.random.Generator | None
    ) -> Iterator[Batch]:
        for _ in range(num_epochs):
            for picked in rollout.epoch(rng, num_parts):
                if self._is_stopped or self._rollout is not rollout:
                    return
                yield self._batch(rollout, picked)

    def _batch(self, rollout: Rollout, picked: Picked) -> Batch:
        positions = torch.from_numpy(picked.positions.ravel())
        computed = {key: values[positions] for key, values in rollout.computed.items()}
        rows: Nested = {**self._rows(rollout.ids[picked.positions.ravel()]), **self._staging.send(computed)}
        if picked.mask is None:
            return cast(Batch, rows)
        shape = picked.positions.shape
        batch = cast(Batch, map_arrays(lambda values: values.reshape(*shape, *values.shape[1:]), rows))
        if keys.RHS in batch:
            batch[keys.RHS] = batch[keys.RHS][:, 0]
        batch[keys.MASK] = torch.from_numpy(picked.mask[..., None]).to(self.device, torch.float32)
        return batch

    def _rows(self, ids: np.ndarray) -> Batch:
        """Stored columns of the steps `ids`, `[batch, ...]`."""
        with self._store.lock:
            tensors = self._store.access.gather(ids, ONE_STEP, self.algorithm.gamma)
        return cast(Batch, nest(self._staging.send(tensors).items()))

    def _column(self, steps: TimeMajorSteps, key: str) -> torch.Tensor:
        """A stored column of one number for each step as float32 `[time, lanes]`."""
        return steps.column(self.data[key]).float()

    def _rewards(self, steps: TimeMajorSteps) -> torch.Tensor:
        """Rewards to learn from, `[time, lanes]`: normalised, with the intrinsic ones."""
        rewards = self.actor.normalise_reward(self._column(steps, keys.REWARD).to(self.device)).cpu()
        if keys.IREWARD in self.data:
            weight = cast(RewardsNovelty, self.algorithm).intrinsic_weight
            rewards = rewards + weight * self._column(steps, keys.IREWARD)
        return rewards

    def _discounts(self, steps: TimeMajorSteps) -> torch.Tensor:
        """γ, and 0 where an episode terminated, `[time, lanes]`."""
        flag = keys.NEXT_TERMINATED if keys.NEXT_TERMINATED in self.data else keys.NEXT_DONE
        return self.algorithm.gamma * (1.0 - self._column(steps, flag))

    def _next_values(self, steps: TimeMajorSteps, values: torch.Tensor, discounts: torch.Tensor) -> torch.Tensor:
        """Values `[time, lanes]` of what each step led to.

        That is the next step's value where the stream continues. Elsewhere the critic is asked about the
        true next observation, unless the episode terminated, and then nothing is bootstrapped.
        """
        is_asked = steps.in_order(~steps.continues & (discounts > 0.0))
        asked = torch.zeros(len(steps.ids))
        if is_asked.any():
            rows = self._rows(steps.ids[is_asked.numpy()])
            asked[is_asked] = self.algorithm.next_values(rows).float().squeeze(-1).cpu()
        following = torch.cat([values[1:], torch.zeros_like(values[:1])])
        return torch.where(steps.continues, following, steps.padded(asked))

    def _evaluate(self, steps: TimeMajorSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and log-probabilities of all steps under the present networks, each `[time, lanes]`."""
        num_parts = -(-len(steps.ids) // _EVALUATED_STEPS)
        parts = [self.algorithm.evaluate_actions(self._rows(ids)) for ids in np.array_split(steps.ids, num_parts)]
        values, log_probs = (torch.cat(column).squeeze(-1).cpu() for column in zip(*parts, strict=True))
        return steps.padded(values), steps.padded(log_probs)

    def _sequences(self, steps: TimeMajorSteps) -> StepSequences | None:
        if not getattr(self.actor, "is_recurrent", False):
            return None
        run_positions = steps.run_positions(steps.column(self.data[keys.DONE]))
        return StepSequences(steps.in_order(run_positions).numpy(), *self._sequence_shape(self.sequence_length))

    def _check_keys(self, sample: Sample) -> None:
        """Refuse a first sample without what returns and sequences are computed from."""
        if self._store.is_built:
            return
        needed = [keys.REWARD, keys.VALUE, keys.LOG_PROB]
        if getattr(self.actor, "is_recurrent", False):
            needed += [keys.RHS, keys.DONE]
        missing = [key for key in needed if key not in sample or sample[key] is None]
        if missing:
            raise SchemaError(
                f"a sample lacks {', '.join(missing)}, which {type(self).__name__} needs; it has "
                f"{', '.join(map(str, sample))}. On-policy algorithms tell values and log-probabilities as they act"
            )

    def _make_room(self, source: Hashable, first_step: int | np.ndarray | None, num_steps: int | np.ndarray) -> None:
        """Refuse steps for which there is no room; a source that joins gets room of its own."""
        num_new = self._store.num_new(source, first_step, num_steps)
        known, num_stored = self._store.sources, 0
        if source in known:
            lane = self._store.lane_of(source)
            num_stored = int(self._store.ring.sizes[lane : lane + self.num_envs].max())
        if num_stored + num_new > self.max_size:
            raise StorageError(
                f"no room for {num_new} more steps: {num_stored} of {self.max_size} are stored; "
                "call reset after each update stage, or use a larger size"
            )
        joins = source not in known and bool(known) and not self._store.state().vacant_lanes
        # A snapshot of several sources comes back in the room of one.
        num_sources = max(self._num_shares(), len(known) + joins)
        if self._store.is_built and self._store.size < self.max_size * num_sources:
            self._store.resize(self.max_size * num_sources)

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        """Let go of a rollout whose steps may have been forgotten."""
        self._rollout = None

    def _num_shares(self) -> int:
        """Every source has `max_size` steps to itself."""
        return self._store.ring.num_lanes // self.num_envs if self._store.is_built else 1

    def _check_config(self, config: StorageConfig) -> None:
        assert isinstance(config, RolloutConfig)
        if getattr(self.actor, "is_recurrent", False):
            self._sequence_shape(config.sequence_length)

    def _sequence_shape(self, length: int | None) -> tuple[int, int]:
        """Most steps of a sequence, and how many of them only warm the memory up."""
        shape = length or int(self.algorithm.update_every), int(getattr(self.actor, "sequence_overlap", 0))
        check_sequence(*shape, capacity=shape[0])
        return shape
