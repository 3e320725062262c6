"""The algorithms by name, for actors too, which know of no algorithm; each is loaded when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from recollect.errors import ConfigError, closest

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.agent.algorithms.learning import LearningAlgorithm

_PACKAGE: Final = "recollect.agent.algorithms"


class Algorithms(Mapping[str, "type[LearningAlgorithm]"]):
    """Classes by name, from the modules that hold them.

    Parameters
    ----------
    places : dict
        Module below `recollect.agent.algorithms`, a colon and the class, by name.
    """

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> "type[LearningAlgorithm]":
        if name not in self._places:
            raise KeyError(name)
        module, class_name = self._places[name].split(":")
        algorithm: type[LearningAlgorithm] = getattr(import_module(f"{_PACKAGE}.{module}"), class_name)
        return algorithm

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


ALGORITHMS: Final = Algorithms(
    {
        "ddqn": "off_policy.ddqn:DDQN",
        "ddpg": "off_policy.ddpg:DDPG",
        "td3": "off_policy.td3:TD3",
        "sac": "off_policy.sac:SAC",
        "sac-discrete": "off_policy.sac_discrete:SACDiscrete",
        "mpo": "off_policy.mpo:MPO",
        "ppo": "on_policy.ppo:PPO",
    }
)


def find_algorithm(name: str) -> "type[LearningAlgorithm]":
    """Class of the algorithm called `name`, in any case."""
    plain = name.lower()
    if plain not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {name!r}; {closest(plain, ALGORITHMS)}")
    return ALGORITHMS[plain]


def advice(action_space: "gym.Space[Any]") -> str:
    """Name the algorithms that can act in a space, for those who chose another."""
    able = sorted(name for name, algorithm in ALGORITHMS.items() if isinstance(action_space, algorithm.action_spaces))
    if not able:
        return "No algorithm can; wrap the environment so that its actions are a Box or Discrete."
    *some, last = able
    return f"Use the algorithm {', '.join(some)} or {last}." if some else f"Use the algorithm {last}."
