"""`PERBuffer`: prioritised replay."""

from collections.abc import Callable
from typing import Any, Final, Unpack

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Batch, Info, StorageFactory
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.outputs import Drawn
from recollect.agent.storages.experience.sampling.sum_tree import SumTree, bytes_a_step, wrong_error
from recollect.agent.storages.experience.store.experience_store import NO_FLOORS
from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer
from recollect.agent.storages.off_policy.options import StoreOptions
from recollect.checks import check_number
from recollect.errors import SchemaError, StorageError

_ERRORS: Final = "errors"


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

    drawn_keys: tuple[str, ...] = (keys.PER_WEIGHTS,)

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
        self.epsilon = _check_error("epsilon", epsilon)
        self.alpha = check_number("alpha", alpha, 0.0)
        self.beta = check_number("beta", beta, 0.0)
        self.default_error = _check_error("default_error", default_error)
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
        if isinstance(sequence_data, torch.Tensor):
            return eta * sequence_data.amax(dim=1) + (1 - eta) * sequence_data.mean(dim=1)
        array = np.asarray(sequence_data)
        return eta * array.max(axis=1) + (1 - eta) * array.mean(axis=1)

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
            assert self.tree is not None
            num_stale = self.tree.update(ids, values)
        self.num_stale += num_stale
        info.setdefault(keys.STORAGE, {})[keys.STALE] = num_stale
        return info

    def state(self) -> Extras:
        errors = np.empty(0, np.float32)
        if self._store.is_built:
            assert self.tree is not None
            errors = self.tree.errors
        return super().state() | Extras(slot_arrays={_ERRORS: errors})

    def load_state(self, extras: Extras) -> None:
        super().load_state(extras)
        assert self.tree is not None
        self.tree.errors[:] = extras.slot_arrays[_ERRORS]
        self.tree.rescale(self.alpha, self.epsilon)

    def _one_error_a_row(self, errors: torch.Tensor, num_rows: int) -> torch.Tensor:
        """Errors float32 of `num_rows` in all; those of sequences' steps are mixed over time."""
        is_sequence = self._store.sequence is not None and errors.ndim > 1 and len(errors) == num_rows
        if is_sequence and errors.shape[2:] in ((), (1,)):
            # Mixing may hide that one step's error is wrong.
            _refuse_negative(errors)
            errors = self.get_sequence_priority(errors).contiguous()
        if errors.numel() != num_rows:
            raise SchemaError(f"expected one TD error for each of {num_rows} rows, got shape {tuple(errors.shape)}")
        return errors

    def _draw(self, num_rows: int, k: int, num_batches: int) -> Drawn:
        return self._draw_prioritised(num_rows, NO_FLOORS, 0)

    def _draw_prioritised(self, num_rows: int, floors: np.ndarray, num_recent: int) -> Drawn:
        """Draw from the `num_recent` steps not older than `floors`, in proportion to their priorities."""
        uniforms = self._rng.random(num_rows)
        assert self.tree is not None
        drawn = None if self.tree.is_flat else self.tree.draw(uniforms, self.beta, floors)
        if drawn is None:
            return Drawn(self._store.draw(uniforms, floors), num_recent=num_recent)
        return Drawn(*drawn, num_recent)

    def _on_append(self) -> None:
        super()._on_append()
        assert self.tree is not None
        self.tree.follow(self.default_error)

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        super()._on_relayout(old, new)
        tree = SumTree(new, self._store.starts, self.alpha, self.epsilon)
        if old is not None and self.tree is not None:
            tree.take_over(self.tree, old)
        self.tree = tree

    def _bytes_beside(self) -> float:
        return super()._bytes_beside() + bytes_a_step(self.alpha)

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {
            "alpha": self._set_alpha,
            "epsilon": self._set_epsilon,
            "beta": self._set_beta,
        }

    def _set_alpha(self, value: Any) -> None:
        self.alpha = check_number("alpha", value, 0.0)
        self._rescale()

    def _set_epsilon(self, value: Any) -> None:
        self.epsilon = _check_error("epsilon", value)
        self._rescale()

    def _set_beta(self, value: Any) -> None:
        self.beta = check_number("beta", value, 0.0)

    def _rescale(self) -> None:
        if self.tree is not None:
            self.tree.rescale(self.alpha, self.epsilon)


def _check_error(name: str, value: Any) -> float:
    """Return an error that is finite as float32 too, as errors are kept."""
    return check_number(name, value, 0.0, float(np.finfo(np.float32).max))


def _refuse_negative(errors: torch.Tensor) -> None:
    if not (torch.isfinite(errors) & (errors >= 0)).all():
        raise wrong_error()


def _as_tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
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
