"""The algorithms, one line each. A line here makes an algorithm known by name, everywhere.

Type checkers follow the imports. At run time `recollect.agent.registry` reads the lines and loads a class when it is
first asked for, under the name of its module.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.agent.algorithms.off_policy.ddpg import DDPG as DDPG
    from recollect.agent.algorithms.off_policy.ddqn import DDQN as DDQN
    from recollect.agent.algorithms.off_policy.mpo import MPO as MPO
    from recollect.agent.algorithms.off_policy.sac import SAC as SAC
    from recollect.agent.algorithms.off_policy.sac_discrete import SACDiscrete as SACDiscrete
    from recollect.agent.algorithms.off_policy.td3 import TD3 as TD3
    from recollect.agent.algorithms.on_policy.ppo import PPO as PPO
