"""Who takes part: Recollect with and without its options, and its peers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

OURS: Final = "recollect"
"""Recollect as it comes, which the targets are about."""
SB3: Final = "sb3"
SBX: Final = "sbx"


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """A training loop to time.

    Attributes
    ----------
    run : str
        Module below `competitors/` and function, `module:function`.
    package : str
        Distribution whose version is reported.
    is_jax : bool
        Whether it needs the interpreter with JAX.
    overrides : mapping
        Ours only: values that differ from the defaults, as `recollect train --set` takes them.
    only : tuple of str
        Tasks that it takes part in; none stands for all.
    """

    name: str
    title: str
    run: str
    package: str
    is_jax: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()


def _ours(name: str, title: str, overrides: Mapping[str, Any] | None = None, only: tuple[str, ...] = ()) -> Competitor:
    return Competitor(
        name=name, title=title, run="ours:run", package="recollect", overrides=dict(overrides or {}), only=only
    )


COMPETITORS: Final = {
    competitor.name: competitor
    for competitor in (
        _ours(OURS, "Recollect"),
        _ours("recollect-beside", "Recollect, envs beside updates", {"overlap": True}),
        _ours("recollect-before", "Recollect, envs before updates", {"overlap": False}),
        # Waits minutes for the compiler, so not in every row.
        _ours("recollect-compiled", "Recollect, compiled", {"algo.compile": True}, only=("sac", "ddqn-small")),
        Competitor(name=SB3, title="SB3", run="baselines:run_sb3", package="stable-baselines3"),
        Competitor(name=SBX, title="SBX (JAX)", run="baselines:run_sbx", package="sbx-rl", is_jax=True),
        Competitor(name="plain", title="plain script", run="plain:run", package="torch"),
        Competitor(name="torchrl", title="TorchRL", run="torchrl:run", package="torchrl"),
        Competitor(name="tianshou", title="Tianshou", run="tianshou:run", package="tianshou"),
    )
}
PEERS: Final = tuple(name for name, competitor in COMPETITORS.items() if competitor.package != "recollect")
