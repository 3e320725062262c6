"""Loads a policy from plain weights and their description, without its environment."""

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import gymnasium as gym

from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.actors.checkpoint import load_weights
from recollect.config import RunConfig
from recollect.config.layers import replace_given
from recollect.config.parts import ACTOR, ALGO, class_of, is_on_policy
from recollect.errors import SchemaError
from recollect.export.exporter import CONFIG, FORMAT, MODEL
from recollect.export.files import DESCRIPTION, WEIGHTS
from recollect.export.spaces import space_from_document
from recollect.files.disk import read_file
from recollect.predictor import Predictor

_MAX_BYTES: Final = 1 << 26


@dataclass(frozen=True)
class _NoEnvs:
    """Stands where algorithms ask how many environments they act in."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    num_envs: int = 1


def load_policy(path: str | PathLike[str], *, trust: bool = False, **parts: object) -> Predictor:
    """Load a policy that was exported as `.safetensors` with its `.json`, or to a folder.

    Parameters
    ----------
    path : path-like
        The `.safetensors` file or the folder.
    trust : bool
        Whether code that the description names as `module:Name` may be imported.
    **parts
        Parts to take instead of those that it names, as in `Agent.load`: `features=MyNet`.

    Returns
    -------
    Predictor
        With `predict(obs)` and `begin_episode()`, as an `Agent` has them.
    """
    given = Path(path)
    weights = given / f"{MODEL}{WEIGHTS}" if given.is_dir() else given
    file = given / f"{CONFIG}{DESCRIPTION}" if given.is_dir() else given.with_suffix(DESCRIPTION)
    document = _read(file)
    config = RunConfig.from_document(replace_given(document[CONFIG], parts), trust=trust, source=str(file))
    obs_space, action_space = (space_from_document(document.get(f"{of}_space")) for of in ("observation", "action"))
    factory = class_of(ALGO, config.algo).create_factory(**config.options(ALGO))
    actor_class = OnPolicyActor if is_on_policy(config.algo) else OffPolicyActor
    actor = actor_class.create_factory(obs_space, action_space, factory, seed=config.seed, **config.options(ACTOR))(
        "cpu"
    )
    load_weights(actor, weights)
    envs: Any = _NoEnvs(obs_space, action_space)
    return Predictor(factory("cpu", actor, envs))


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_file(file, _MAX_BYTES))
    except FileNotFoundError:
        raise SchemaError(f"there is no {file}, which describes the policy; keep it beside the weights") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{file} is no JSON: {error}; export the policy again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT or not isinstance(document.get(CONFIG), dict):
        raise SchemaError(f"{file} does not describe a policy; expected what Agent.export writes")
    return document
