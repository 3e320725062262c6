"""Steps and batches as TorchRL lays them out: tensordicts with `"next"` below them."""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import torch
from tensordict import TensorDict, TensorDictBase, is_leaf_nontensor

from recollect import keys
from recollect.errors import RecollectWarning, SchemaError

INDEX: Final = "index"
WEIGHT: Final = "priority_weight"
_NEXT: Final = "next"
_REWARD: Final = "reward"
_DONE: Final = "done"
_TERMINATED: Final = "terminated"
_TRUNCATED: Final = "truncated"
_FLAGS: Final = (_DONE, _TERMINATED, _TRUNCATED)
_COLLECTOR: Final = "collector"
_MASK: Final = (_COLLECTOR, "mask")
_STEPS: Final = "steps_to_next_obs"


def by_env(data: TensorDictBase, num_envs: int | None) -> TensorDictBase:
    """Steps `[num_envs, time]` of a tensordict `[time]` or `[..., time]`, without the padding of split trajectories."""
    if data.ndim == 0:
        raise SchemaError("expected a tensordict [time] or [num_envs, time], got one step; use add")
    mask = data.get(_MASK, None)
    if mask is not None:
        if (num_envs or 1) > 1:
            raise SchemaError(
                f"trajectories that a collector split cannot be told apart by {num_envs} envs; leave num_envs or "
                "split_trajs out"
            )
        data = data[mask]
    if data.ndim > 1:
        num_envs = data.shape[:-1].numel()
    elif len(data) % (num_envs or 1):
        raise SchemaError(f"expected as many steps of each of {num_envs} envs, got {len(data)} together")
    return data.reshape(num_envs or 1, -1)


def to_sample(steps: TensorDictBase) -> dict[str, Any]:
    """Steps `[time, num_envs]` as a storage takes them."""
    following = steps.get(_NEXT, None)
    if not isinstance(following, TensorDictBase) or not {_REWARD, _DONE} <= set(following.keys()):
        raise SchemaError(f"a step must have ({_NEXT!r}, {_REWARD!r}) and ({_NEXT!r}, {_DONE!r}), got {steps}")
    if steps.get(_STEPS, None) is not None:
        raise SchemaError(
            f"these steps are n-step returns already ({_STEPS!r}): leave MultiStep out, and give the buffer n_step"
        )
    found = {name: following.get(name, None) for name in (_REWARD, *_FLAGS)}
    outcomes = {name: _column(values) for name, values in found.items() if values is not None}
    begin, following = steps.exclude(_NEXT, _COLLECTOR, *_FLAGS), following.exclude(_REWARD, *_FLAGS)
    after = set(following.keys(True, True))
    observed = [key for key in begin.keys(True, True) if key in after]
    others = [key for key in begin.keys(True, True) if key not in after]
    if not observed:
        raise SchemaError(
            f"nothing is both in the steps and below {_NEXT!r}, so there is no next observation: a collector must not "
            "leave them out (compact_obs)"
        )
    if lost := after - set(observed):
        _warn(
            f"{sorted(map(str, lost))} below {_NEXT!r} are not stored, because the steps themselves do not have them; "
            "set them beside the action if the loss needs them"
        )
    if lost := set(begin.keys(True, True, is_leaf=is_leaf_nontensor)) - {*observed, *others}:
        _warn(f"{sorted(map(str, lost))} are not stored, because they are no tensors")
    done = outcomes[_DONE]
    terminated = outcomes.get(_TERMINATED, done)
    return {
        keys.OBS: begin.select(*observed).contiguous().to_dict(),
        keys.ACTION: begin.select(*others).contiguous().to_dict(),
        keys.NEXT_OBS: following.select(*observed).contiguous().to_dict(),
        keys.REWARD: outcomes[_REWARD].float().contiguous(),
        keys.NEXT_DONE: (done | terminated | outcomes.get(_TRUNCATED, done)).contiguous(),
        keys.NEXT_TERMINATED: terminated.contiguous(),
    }


def to_tensordict(batch: Mapping[str, Any], device: torch.device) -> TensorDict:
    """What a storage drew, by TorchRL's keys."""
    done, terminated = batch[keys.NEXT_DONE], batch[keys.NEXT_TERMINATED]
    flags = {_DONE: done, _TERMINATED: terminated, _TRUNCATED: done & ~terminated}
    result = {name: torch.zeros_like(flag) for name, flag in flags.items()} | batch[keys.OBS] | batch[keys.ACTION]
    result[_NEXT] = {**flags, **batch[keys.NEXT_OBS], _REWARD: batch[keys.REWARD]}
    result[_STEPS], result[INDEX] = batch[keys.N_STEP], batch[keys.IDXS]
    if keys.PER_WEIGHTS in batch:
        result[WEIGHT] = batch[keys.PER_WEIGHTS].reshape(-1)
    return TensorDict(result, [len(done)], device=device)


def _column(values: torch.Tensor) -> torch.Tensor:
    """Numbers of steps `[time, num_envs]` as `[time, num_envs, 1]`, in which TorchRL's own come."""
    return values.unsqueeze(-1) if values.ndim == 2 else values


def _warn(message: str) -> None:
    warnings.warn(message, RecollectWarning, stacklevel=4)  # at the caller of `extend`
