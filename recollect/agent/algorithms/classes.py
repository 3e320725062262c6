"""The algorithms, one line each. A line here makes an algorithm known by name, everywhere.

Type checkers follow the imports. At run time `recollect.agent.registry` reads the lines and loads a class when it is
first asked for, under the name of its module.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # In the order in which users see them: by name, off-policy first.
    # isort: off
    from recollect.agent.algorithms.off_policy.distributional.c51 import C51 as C51
    from recollect.agent.algorithms.off_policy.sample_efficient.crossq import CrossQ as CrossQ
    from recollect.agent.algorithms.off_policy.ddpg import DDPG as DDPG
    from recollect.agent.algorithms.off_policy.ddqn import DDQN as DDQN
    from recollect.agent.algorithms.off_policy.sample_efficient.droq import DroQ as DroQ
    from recollect.agent.algorithms.off_policy.offline.iql import IQL as IQL
    from recollect.agent.algorithms.off_policy.mpo import MPO as MPO
    from recollect.agent.algorithms.off_policy.distributional.qr_dqn import QRDQN as QRDQN
    from recollect.agent.algorithms.off_policy.distributional.rainbow import Rainbow as Rainbow
    from recollect.agent.algorithms.off_policy.sample_efficient.redq import REDQ as REDQ
    from recollect.agent.algorithms.off_policy.offline.rlpd import RLPD as RLPD
    from recollect.agent.algorithms.off_policy.sac import SAC as SAC
    from recollect.agent.algorithms.off_policy.sac_discrete import SACDiscrete as SACDiscrete
    from recollect.agent.algorithms.off_policy.td3 import TD3 as TD3
    from recollect.agent.algorithms.off_policy.offline.td3_bc import TD3BC as TD3BC
    from recollect.agent.algorithms.off_policy.distributional.tqc import TQC as TQC
    from recollect.agent.algorithms.on_policy.a2c import A2C as A2C
    from recollect.agent.algorithms.on_policy.ppo import PPO as PPO
    from recollect.agent.algorithms.on_policy.pqn import PQN as PQN
