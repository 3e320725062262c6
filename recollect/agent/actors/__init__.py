"""Actors: the networks of an agent, made of features, memory, policies and critics.

Algorithms and configs import from here; actors know no algorithm.
"""

from recollect.agent.actors.base import Actor
from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.factory import ActorFactory
from recollect.agent.actors.families import OffPolicyActor, OnPolicyActor
from recollect.agent.actors.noise import GaussianNoise, OUNoise
from recollect.agent.actors.plan import ActorPlan

__all__ = [
    "Actor",
    "ActorConfig",
    "ActorFactory",
    "ActorPlan",
    "GaussianNoise",
    "OUNoise",
    "OffPolicyActor",
    "OnPolicyActor",
]
