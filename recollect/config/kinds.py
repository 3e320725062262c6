"""Presets by kind of task, for environments without a tuned one: hyperparameters that fit its spaces."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from recollect import keys
from recollect.agent.registry import ALGORITHMS, NAME
from recollect.config import presets
from recollect.config.files import Document
from recollect.config.parts import ALGO, ENV, SCHEME, STORAGE, class_of, is_on_policy

if TYPE_CHECKING:
    import gymnasium as gym

_LOG: Final = logging.getLogger(keys.PRESET_LOGGER)
# Environments that run beside each other, or in one call, where the run does not say how many.
_NUM_BATCHED_ENVS: Final = 8
# Storages of presets that hindsight can take the place of.
_PLAIN: Final = ("replay", "per")
_CONTINUOUS_GOAL_GAMMA: Final = 0.95
_DISCRETE_GOAL_GAMMA: Final = 0.98


def fitting(algo: str, env: str, overrides: Mapping[str, Any]) -> Document:
    """Find the preset for an algorithm and the kind of task that an environment is; empty if there is none.

    Off-policy presets count updates for one environment; several have as many times more, so that the updates for
    each step stay the same.

    Parameters
    ----------
    algo, env : str
        Names of the algorithm and of the environment, which is made once for its spaces.
    overrides : mapping
        What the caller set, by path. Options of the environment, `vec` and `num_envs` tell what the task is like.
    """
    if algo not in ALGORITHMS.built_in:
        return {}
    action_space, obs_space = _spaces(env, overrides)
    name = _name_for(algo, action_space, obs_space)
    if name is None:
        return {}
    document, addition = presets.load(name), ""
    if _has_goals(obs_space) and name.startswith("vector-") and not is_on_policy(algo):
        document, addition = _with_hindsight(document, action_space), "; with hindsight, because there are goals"
    _LOG.info("no preset for %s on %s; using %s: %s%s", algo, env, name, presets.about(name), addition)
    if overrides.get("vec", keys.SYNC) != keys.SYNC:
        document.setdefault("num_envs", _NUM_BATCHED_ENVS)
    num_envs = overrides.get("num_envs", document.get("num_envs", 1))
    num_all = num_envs * _num_holders(overrides) if isinstance(num_envs, int) else 1
    if not is_on_policy(algo):
        options = document[ALGO]
        document[ALGO] = options | {"num_mini_batch": options["num_mini_batch"] * num_all}
    return document


def _num_holders(overrides: Mapping[str, Any]) -> int:
    """Workers whose environments step in every stage: all synchronous ones, so that their number changes nothing."""
    # The part may be left out of a path.
    given = {path.removeprefix(f"{SCHEME}."): value for path, value in overrides.items()}
    num_workers = given.get("num_col_workers", 0)
    is_sync = given.get("col_mode", keys.SYNC) == keys.SYNC
    return max(1, num_workers) if is_sync and isinstance(num_workers, int) else 1


def _spaces(env: str, overrides: Mapping[str, Any]) -> "tuple[gym.Space[Any], gym.Space[Any]]":
    """Action and observation space of a task as the caller wants it."""
    from recollect.agent.envs import VecEnv

    options = {path.partition(".")[2]: value for path, value in overrides.items() if path.startswith(f"{ENV}.")}
    _, action_space, obs_space = VecEnv.create_factory(
        env, options, kind=overrides.get("vec", keys.SYNC), wrappers=overrides.get("wrappers", ())
    )
    return action_space, obs_space


def _name_for(algo: str, action_space: "gym.Space[Any]", obs_space: "gym.Space[Any]") -> str | None:
    candidates = [f"{kind}-{algo}" for kind in _kinds(obs_space, action_space)]
    name = next((name for name in candidates if name in presets.kinds()), None)
    can_act = name is None or isinstance(action_space, class_of(ALGO, algo).action_spaces)
    return name if can_act else None


def _with_hindsight(document: Document, action_space: "gym.Space[Any]") -> Document:
    """A preset for vectors where there are goals, which are near: with their discount, and relabelled."""
    from gymnasium.spaces import Box

    storage = document[STORAGE] if isinstance(document[STORAGE], Mapping) else {}
    if document[STORAGE] not in _PLAIN and storage.get(NAME) not in _PLAIN:
        return document
    gamma = _CONTINUOUS_GOAL_GAMMA if isinstance(action_space, Box) else _DISCRETE_GOAL_GAMMA
    return {**document, ALGO: {**document[ALGO], "gamma": gamma}, STORAGE: {**storage, NAME: "her"}}


def _has_goals(obs_space: "gym.Space[Any]") -> bool:
    from gymnasium.spaces import Dict

    return isinstance(obs_space, Dict) and {keys.ACHIEVED_GOAL, keys.DESIRED_GOAL} <= set(obs_space.spaces)


def _kinds(obs_space: "gym.Space[Any]", action_space: "gym.Space[Any]") -> list[str]:
    """What a task with these spaces is, most special first."""
    from gymnasium.spaces import Box, Dict

    from recollect.agent.actors.networks.features.images import is_image

    spaces = list(obs_space.spaces.values()) if isinstance(obs_space, Dict) else [obs_space]
    if any(isinstance(space, Box) and is_image(space) for space in spaces):
        return ["image"]
    special = {"goal": _has_goals(obs_space), "vector-continuous": isinstance(action_space, Box)}
    return [*(kind for kind, applies in special.items() if applies), "vector"]
