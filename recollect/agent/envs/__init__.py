"""Envs: tasks by id, stepped together, with true transitions only.

Collection workers, configs and the command line import from here.
"""

from recollect.agent.envs.catalog import make_atari, make_env
from recollect.agent.envs.factory import VecEnvFactory
from recollect.agent.envs.step import Step
from recollect.agent.envs.tasks import register_tasks
from recollect.agent.envs.vec_env import VecEnv

register_tasks()

__all__ = ["Step", "VecEnv", "VecEnvFactory", "make_atari", "make_env"]
