"""Where envs and wrappers keep their state, by class. Only what stands here, or says so itself, can be resumed."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import gymnasium as gym

OWN_LIST: Final = "state_attributes"
"""Class attribute by which an env or a wrapper names the attributes that are its state."""

_CONTROL: Final = "gymnasium.envs.classic_control."
_TEXT: Final = "gymnasium.envs.toy_text."
_WRAPPERS: Final = "gymnasium.wrappers."
_MAZE: Final = "gymnasium_robotics.envs.maze."

# Generators are kept of every env that has one, see `names_of`.
_BY_CLASS: Final[dict[str, tuple[str, ...]]] = {
    f"{_CONTROL}acrobot.AcrobotEnv": ("state",),
    f"{_CONTROL}cartpole.CartPoleEnv": ("state", "steps_beyond_terminated"),
    f"{_CONTROL}continuous_mountain_car.Continuous_MountainCarEnv": ("state",),
    f"{_CONTROL}mountain_car.MountainCarEnv": ("state",),
    f"{_CONTROL}pendulum.PendulumEnv": ("state", "last_u"),
    f"{_TEXT}blackjack.BlackjackEnv": ("player", "dealer", "dealer_top_card_suit", "dealer_top_card_value_str"),
    f"{_TEXT}cliffwalking.CliffWalkingEnv": ("s", "lastaction"),
    f"{_TEXT}frozen_lake.FrozenLakeEnv": ("s", "lastaction"),
    f"{_TEXT}taxi.TaxiEnv": ("s", "lastaction", "fickle_step", "taxi_orientation"),
    f"{_MAZE}point.PointEnv": (),
    f"{_MAZE}point_maze.PointMazeEnv": ("goal", "reset_pos"),
    f"{_MAZE}ant_maze_v4.AntMazeEnv": ("goal", "reset_pos"),
    f"{_MAZE}ant_maze_v5.AntMazeEnv": ("goal", "reset_pos"),
    f"{_WRAPPERS}atari_preprocessing.AtariPreprocessing": ("obs_buffer", "lives", "game_over"),
    f"{_WRAPPERS}common.Autoreset": ("autoreset",),
    f"{_WRAPPERS}common.OrderEnforcing": ("_has_reset",),
    f"{_WRAPPERS}common.PassiveEnvChecker": (),
    f"{_WRAPPERS}common.RecordEpisodeStatistics": (
        "episode_count",
        "episode_returns",
        "episode_lengths",
        "time_queue",
        "return_queue",
        "length_queue",
    ),
    f"{_WRAPPERS}common.TimeLimit": ("_elapsed_steps",),
    f"{_WRAPPERS}rendering.RenderCollection": (),
    f"{_WRAPPERS}stateful_action.RepeatAction": (),
    f"{_WRAPPERS}stateful_action.StickyAction": ("last_action", "is_sticky_actions", "num_repeats", "repeats_taken"),
    f"{_WRAPPERS}stateful_observation.DelayObservation": ("observation_queue",),
    f"{_WRAPPERS}stateful_observation.FrameStackObservation": ("obs_queue", "padding_value"),
    f"{_WRAPPERS}stateful_observation.MaxAndSkipObservation": (),
    f"{_WRAPPERS}stateful_observation.NormalizeObservation": ("obs_rms", "_update_running_mean"),
    f"{_WRAPPERS}stateful_observation.TimeAwareObservation": ("timesteps",),
    f"{_WRAPPERS}stateful_reward.NormalizeReward": ("return_rms", "discounted_reward", "_update_running_mean"),
    f"{_WRAPPERS}transform_action.ClipAction": (),
    f"{_WRAPPERS}transform_action.DiscretizeAction": (),
    f"{_WRAPPERS}transform_action.RescaleAction": (),
    f"{_WRAPPERS}transform_observation.DiscretizeObservation": (),
    f"{_WRAPPERS}transform_observation.DtypeObservation": (),
    f"{_WRAPPERS}transform_observation.FilterObservation": (),
    f"{_WRAPPERS}transform_observation.FlattenObservation": (),
    f"{_WRAPPERS}transform_observation.GrayscaleObservation": (),
    f"{_WRAPPERS}transform_observation.RescaleObservation": (),
    f"{_WRAPPERS}transform_observation.ReshapeObservation": (),
    f"{_WRAPPERS}transform_observation.ResizeObservation": (),
    f"{_WRAPPERS}transform_reward.ClipReward": (),
}
# All classes of these modules keep their state in a simulator, and beside it in these attributes.
_BY_MODULE: Final[dict[str, tuple[str, ...]]] = {
    "ale_py.": (),
    "gymnasium.envs.mujoco.": (),
    "gymnasium_robotics.envs.fetch.": ("goal",),
    "gymnasium_robotics.envs.shadow_dexterous_hand.": ("goal",),
}
# Envs within an env that are no layers of it.
_INNER: Final = ("point_env", "ant_env")
_GENERATOR: Final = ("_np_random", "_np_random_seed")

Layer = gym.Env[Any, Any]


def names_of(layer: Layer) -> tuple[str, ...] | None:
    """The attributes that are the state of one layer; None if nobody knows."""
    kind = type(layer)
    # A class that was derived from a known one may have more.
    names = vars(kind).get(OWN_LIST, _BY_CLASS.get(class_name(layer)))
    if names is None and suite_env_of(layer) is not None:
        names = ()
    if names is None:
        names = next((found for module, found in _BY_MODULE.items() if kind.__module__.startswith(module)), None)
    if names is None:
        return None
    return tuple(names) if isinstance(layer, gym.Wrapper) else (*names, *_GENERATOR)


def layers_of(env: Layer) -> Iterator[Layer]:
    """An env from the outermost wrapper inwards."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env
    for name in _INNER:
        if name in vars(env):
            yield from layers_of(vars(env)[name])


def suite_env_of(layer: Layer) -> Any | None:
    """The task of the DeepMind Control Suite behind a layer of Shimmy's; None if there is none.

    Tasks of dm_control's composer keep their state in other places, which nobody knows.
    """
    control = sys.modules.get("dm_control.rl.control")
    env = vars(layer).get("_env")
    return env if control is not None and isinstance(env, control.Environment) else None


def class_name(layer: Layer) -> str:
    """Module and name of a layer's class."""
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
