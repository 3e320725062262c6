"""`PERBuffer`: prioritised replay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Creates
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.sum_tree import SumTree, bytes_a_step, wrong_error
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_access import NO_FLOORS
from recollect.agent.storages.off_policy.nstep_buffer import NStepConfig, NStepReplayBuffer
from recollect.agent.storages.off_policy.replay_buffer import Drawn
from recollect.errors import SchemaError, StorageError
from recollect.options import linear_range, number, option
from recollect.roles import Array, Batch, Info, Numbers

_ERRORS: Final = "errors"
_LARGEST: Final = "largest_error"
# The promised default of `default_error`, which stands for the largest error seen so far.
_AS_LARGE_AS_ANY: Final = 1000000
# Errors are kept as float32, in which they must be finite too.
_finite_error = number(0.0, float(np.finfo(np.float32).max))


@dataclass(frozen=True)
class PERConfig(NStepConfig):
    """Options of prioritised replay."""

    epsilon: float = option(
        0.0, "Added to every error; with 0, a step whose error is 0 is never drawn.", _finite_error, changes=True
    )
    alpha: float = option(0.0, "How much priorities count.", number(0.0), changes=True, search=linear_range(0.0, 0.9))
    beta: float = option(1.0, "How much the weights correct for it.", number(0.0), changes=True)
    default_error: int | float = option(
        _AS_LARGE_AS_ANY,
        "Error of new data; 1000000 stands for the largest error seen so far, and 1 before one is known.",
        _finite_error,
        changes=True,
    )

    @classmethod
    def recommended(cls, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
        return {"epsilon": 0.01, "alpha": 0.6, "beta": 0.4}


class PERBuffer(NStepReplayBuffer):
    """Prioritised experience replay (Schaul et al., 2015, https://arxiv.org/abs/1511.05952).

    Steps are drawn in proportion to `(error + epsilon) ** alpha`; `per_weights` correct for it by
    `(N * P) ** -beta`, divided by the largest of the batch: a batch never learns less because one step of
    the store has a tiny error. New data have the largest error seen so far, so that all are soon drawn.
    With the default alpha 0 draws are uniform and cost what uniform draws cost.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `ReplayBuffer`.
    *values, **given
        See `PERConfig`.
    """

    drawn_keys: ClassVar[tuple[str, ...]] = (keys.PER_WEIGHTS,)

    create_factory = Creates(PERConfig)
    title = "PER"
    config: PERConfig
    epsilon: float
    alpha: float
    beta: float
    default_error: float
    # There once the store is built.
    tree: SumTree

    def _make_parts(self) -> None:
        super()._make_parts()
        self.num_stale = 0
        self._largest_error = np.zeros(1, np.float32)

    def get_priority(self, error: Array | Sequence[float] | float) -> Array | float:
        """Priority of one or more errors."""
        errors = np.asarray(error) if isinstance(error, Sequence) else error
        return (errors + self.epsilon) ** self.alpha

    def get_sequence_priority(self, sequence_data: Array, eta: float = 0.9) -> Array:
        """Mix the errors of sequences into one each: `eta * max + (1 - eta) * mean` over time.

        Sequences are `[num_seq, time]` or `[num_seq, time, ...]`; one alone may also be `[time]` or `[time, 1]`.
        """
        data = sequence_data if isinstance(sequence_data, torch.Tensor) else np.asarray(sequence_data)
        if isinstance(data, torch.Tensor) and not data.is_floating_point():
            data = data.float()
        axis = 0 if data.ndim == 1 or data.shape[1:] == (1,) else 1
        largest = data.amax(axis) if isinstance(data, torch.Tensor) else data.max(axis)
        mixed: Array = eta * largest + (1 - eta) * data.mean(axis)
        return mixed

    def after_gradients(self, batch: Batch, info: Info) -> Info:
        """Set the priorities of a batch's steps from the TD errors at `info["Algorithm"]["errors"]`.

        Steps that were overwritten since are skipped and counted in `info["Storage"]`.
        """
        errors = (info.get(keys.ALGORITHM) or {}).get(keys.ERRORS)
        if errors is None:
            if self.alpha > 0:
                raise SchemaError(
                    f'prioritised replay needs the TD errors of a batch at info["{keys.ALGORITHM}"]["{keys.ERRORS}"]'
                )
            return info
        try:
            ids = _as_tensor(batch[keys.IDXS], torch.int64)
        except (KeyError, TypeError):
            raise SchemaError(f"a batch lacks {keys.IDXS}: give it as it was drawn, with the ids of its rows") from None
        values = self._one_error_a_row(_as_tensor(errors, torch.float32), ids.numel())
        with self._store.lock:
            if not self._store.is_built:
                raise StorageError("the storage is empty: insert data before setting priorities")
            num_stale = self.tree.update(ids, values, self._largest_error)
        self.num_stale += num_stale
        info.setdefault(keys.STORAGE, {})[keys.STALE] = num_stale
        return info

    def state(self) -> Extras:
        errors = self.tree.errors if self._store.is_built else np.empty(0, np.float32)
        return super().state() | Extras({_LARGEST: float(self._largest_error[0])}, slot_arrays={_ERRORS: errors})

    def load_state(self, extras: Extras) -> None:
        super().load_state(extras)
        largest, errors = float(extras.state[_LARGEST]), extras.slot_arrays[_ERRORS]
        are_good = errors.dtype == self.tree.errors.dtype and (np.isfinite(errors) & (errors >= 0)).all()
        if not are_good or not 0 <= largest <= float(np.finfo(np.float32).max):
            raise wrong_error()
        self._largest_error[0] = largest
        self.tree.errors[:] = errors
        self.tree.rescale(self.alpha, self.epsilon)

    def _has_priorities(self) -> bool:
        return self.alpha > 0

    def _one_error_a_row(self, errors: torch.Tensor, num_rows: int) -> torch.Tensor:
        """Errors float32 of `num_rows` in all; those of sequences' steps are mixed over time."""
        is_sequence = self._store.sequence is not None and errors.ndim > 1 and len(errors) == num_rows
        if is_sequence and errors.shape[2:] in ((), (1,)):
            # Mixing may hide that one step's error is wrong.
            if not (torch.isfinite(errors) & (errors >= 0)).all():
                raise wrong_error()
            errors = torch.as_tensor(self.get_sequence_priority(errors.reshape(num_rows, -1, 1))).contiguous()
        if errors.numel() != num_rows:
            raise SchemaError(f"expected one TD error for each of {num_rows} rows, got shape {tuple(errors.shape)}")
        return errors

    def _draw(self, num_rows: int, k: int, num_batches: int) -> Drawn:
        return self._draw_prioritised(num_rows, NO_FLOORS)

    def _draw_prioritised(self, num_rows: int, floors: np.ndarray) -> Drawn:
        """Draw from the steps not older than `floors`, in proportion to their priorities."""
        uniforms = self._rng.random(num_rows)
        drawn = None if self.tree.is_flat else self.tree.draw(uniforms, self.beta, floors)
        if drawn is None:
            return Drawn(self._store.access.draw(uniforms, floors), (np.ones(num_rows, np.float32),))
        ids, weights = drawn
        return Drawn(ids, (weights,))

    def _on_append(self) -> None:
        super()._on_append()
        self.tree.follow(self._error_of_new_data())

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        super()._on_relayout(old, new)
        tree = SumTree(new, self._store.starts, self.alpha, self.epsilon)
        if old is not None:
            tree.take_over(self.tree, old)
        self.tree = tree

    def _error_of_new_data(self) -> float:
        if self.default_error == _AS_LARGE_AS_ANY:
            return float(self._largest_error[0]) or 1.0
        return self.default_error

    def _extra_bytes(self) -> float:
        return super()._extra_bytes() + bytes_a_step(self.alpha)

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        if self._store.is_built and (self.tree.alpha, self.tree.epsilon) != (self.alpha, self.epsilon):
            self.tree.rescale(self.alpha, self.epsilon)


def _as_tensor(values: Numbers, dtype: torch.dtype) -> torch.Tensor:
    """Values as a contiguous tensor in CPU memory; those that are one already come back as they are."""
    if not isinstance(values, torch.Tensor):
        try:
            values = torch.from_numpy(np.array(values))
        except (TypeError, ValueError):
            raise SchemaError(f"ids and TD errors must be arrays of numbers, got {type(values).__name__}") from None
    elif values.dtype is dtype and values.is_cpu and values.is_contiguous():
        return values
    if values.is_complex() or (values.is_floating_point() and not dtype.is_floating_point):
        # float32 does not tell the ids of neighbouring steps apart.
        raise SchemaError(
            f"expected {'TD errors that are real' if dtype.is_floating_point else 'ids that are whole'} numbers, got "
            f"{values.dtype}; give {keys.IDXS} as they were drawn"
        )
    return values.detach().to("cpu", dtype).contiguous()
