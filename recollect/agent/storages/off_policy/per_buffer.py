"""`PERBuffer`: prioritised replay."""

from collections.abc import Callable
from typing import Any, Final, Unpack

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Batch, Info, StorageFactory
from recollect.agent.storages.experience import draw_kernels
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.lane_store import NO_FLOORS, Appended
from recollect.agent.storages.experience.sum_tree import SumTree, check_errors
from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer
from recollect.agent.storages.off_policy.replay_buffer import StoreOptions, check_number
from recollect.errors import SchemaError

_STALE: Final = "stale_priorities"


class PERBuffer(NStepReplayBuffer):
    """Prioritised experience replay (Schaul et al., 2015, https://arxiv.org/abs/1511.05952).

    Steps are drawn in proportion to `(error + epsilon) ** alpha`; `per_weights` correct for it by
    `(N * P) ** -beta`, divided by the largest weight of the store. With the default alpha 0 draws are
    uniform and cost what uniform draws cost.

    Parameters
    ----------
    size, device, actor, algorithm, envs, n_step
        As in `NStepReplayBuffer`.
    epsilon : float
        Added to every error; with 0, a step whose error is 0 is never drawn.
    alpha : float
        How much priorities count.
    beta : float
        How much the weights correct for it.
    default_error : int or float
        Error of new data.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(size, device, actor, algorithm, envs, n_step, **options)
        self.epsilon = check_number("epsilon", epsilon, 0.0)
        self.alpha = check_number("alpha", alpha, 0.0)
        self.beta = check_number("beta", beta, 0.0)
        self.default_error = check_number("default_error", default_error, 0.0)
        self.num_stale = 0
        self.tree: SumTree | None = None

    @classmethod
    def create_factory(
        cls,
        size: int,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        **options: Unpack[StoreOptions],
    ) -> StorageFactory:
        """Return a function that creates `PERBuffer` instances."""
        parameters = {
            "size": size,
            "n_step": n_step,
            "epsilon": epsilon,
            "alpha": alpha,
            "beta": beta,
            "default_error": default_error,
        }
        return StorageFactory(cls, parameters | options)

    def get_priority(self, error: Any) -> Any:
        """Priority of one or more errors."""
        return (error + self.epsilon) ** self.alpha

    def get_sequence_priority(self, sequence_data: Any, eta: float = 0.9) -> Any:
        """Mix the errors of sequences `[num_seq, time, ...]` into one each: `eta * max + (1 - eta) * mean`."""
        array = np.asarray(sequence_data) if not isinstance(sequence_data, torch.Tensor) else sequence_data
        if isinstance(array, torch.Tensor):
            return eta * array.amax(dim=1) + (1 - eta) * array.mean(dim=1)
        return eta * array.max(axis=1) + (1 - eta) * array.mean(axis=1)

    def after_gradients(self, batch: Batch, info: Info) -> Info:
        """Set the priorities of a batch's steps from the TD errors at `info["Algorithm"]["errors"]`.

        Steps that were overwritten since are skipped and counted in `info["Storage"]`.
        """
        errors = info.get(keys.ALGORITHM, {}).get(keys.ERRORS)
        if errors is None:
            if self.alpha > 0:
                raise SchemaError(
                    f'prioritised replay needs the TD errors of a batch at info["{keys.ALGORITHM}"]["{keys.ERRORS}"]'
                )
            return info
        ids = _as_array(batch[keys.IDXS], np.int64).ravel()
        values = self._one_error_a_row(_as_array(errors, np.float32), len(ids))
        check_errors(values)
        with self._store.lock:
            num_stale = self._update(ids, values)
        self.num_stale += num_stale
        info.setdefault(keys.STORAGE, {})[_STALE] = num_stale
        return info

    def _update(self, ids: np.ndarray, errors: np.ndarray) -> int:
        """Record errors; returns the number of steps that are no longer there."""
        assert self.tree is not None
        slots, kept = np.empty_like(ids), np.empty_like(ids)
        count = draw_kernels.ids_to_slots(self._store.ring.header, self._store.starts.table, ids, slots, kept)
        if count < len(ids):
            slots, errors = slots[:count], errors[kept[:count]]
        self.tree.update(slots, errors)
        return len(ids) - count

    def _one_error_a_row(self, errors: np.ndarray, num_rows: int) -> np.ndarray:
        """Errors as float32 [rows]; those of sequences' steps are mixed over time."""
        if self._store.sequence is not None and errors.ndim > 1 and errors.shape[1] > 1:
            errors = self.get_sequence_priority(errors.reshape(num_rows, -1)).astype(np.float32)
        if errors.size != num_rows:
            raise SchemaError(f"expected one TD error for each of {num_rows} rows, got shape {errors.shape}")
        return np.ascontiguousarray(errors.ravel())

    def _draw(self, num_rows: int, k: int, num_batches: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return self._draw_prioritised(num_rows, NO_FLOORS)

    def _draw_prioritised(
        self, num_rows: int, floors: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw from the steps not older than `floors`, in proportion to their priorities."""
        uniforms = self._rng.random(num_rows)
        tree, ring = self.tree, self._store.ring
        weights = np.ones((num_rows, 1), np.float32)
        if tree is None or tree.is_flat:
            return self._store.draw(uniforms, floors), {keys.PER_WEIGHTS: weights}
        if len(floors) == 0:
            total, smallest = tree.total, tree.smallest_positive
        else:
            ranges = np.empty((2 * ring.num_lanes, 2), np.int64)
            draw_kernels.recent_slots(ring.header, self._store.starts.table, floors, ranges)
            cumulative, smallest = tree.range_totals(ranges)
            total = cumulative[-1]
        if total <= 0.0:
            return self._store.draw(uniforms, floors), {keys.PER_WEIGHTS: weights}
        if len(floors) == 0:
            slots, priorities = tree.draw(uniforms)
        else:
            slots, priorities = tree.draw_in_ranges(ranges, cumulative, uniforms)
        weights[:, 0] = (smallest / priorities) ** self.beta
        draw_kernels.slots_to_ids(ring.header, slots)
        return slots, {keys.PER_WEIGHTS: weights}

    def _on_append(self, appended: Appended) -> None:
        super()._on_append(appended)
        assert self.tree is not None
        ring = self._store.ring
        most = appended.num_lanes * (min(appended.num_steps, ring.num_slots) + 1) + 1
        admitted, removed = np.empty(most, np.int64), np.empty(most, np.int64)
        span = np.array([appended.lane, appended.num_lanes, appended.first, appended.head], np.int64)
        count = draw_kernels.follow_append(ring.header, self._store.starts.table, span, admitted, removed)
        if removed[0] >= 0:
            self.tree.remove(removed[: int(np.argmin(removed >= 0))])
        self.tree.admit(admitted[:count], self.default_error)

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        super()._on_relayout(old, new)
        tree = SumTree(new.num_lanes * new.num_slots, self.alpha, self.epsilon)
        slots = self._store.starts.slots(new)
        if old is not None and self.tree is not None:
            lanes, offsets = np.divmod(slots, new.num_slots)
            newest = new.heads[lanes] - 1
            numbers = newest - (newest - offsets) % new.num_slots
            tree.errors[slots] = self.tree.errors[lanes * old.num_slots + numbers % old.num_slots]
        tree.rescale(self.alpha, self.epsilon, slots)
        self.tree = tree

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {
            "alpha": lambda value: self._rescale(alpha=value),
            "epsilon": lambda value: self._rescale(epsilon=value),
            "beta": self._set_beta,
        }

    def _set_beta(self, value: Any) -> None:
        self.beta = check_number("beta", value, 0.0)

    def _rescale(self, alpha: Any = None, epsilon: Any = None) -> None:
        alpha = self.alpha if alpha is None else check_number("alpha", alpha, 0.0)
        epsilon = self.epsilon if epsilon is None else check_number("epsilon", epsilon, 0.0)
        self.alpha, self.epsilon = alpha, epsilon
        if self.tree is not None:
            self.tree.rescale(alpha, epsilon, self._store.starts.slots(self._store.ring))


def _as_array(values: Any, dtype: type[np.generic]) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype)
