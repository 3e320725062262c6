"""What is measured: the stores that are built, and the operations that are timed on them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["uniform", "nstep", "per", "ere", "her", "sequence", "frames"]
Operation = Literal["sample", "round_trip", "insert", "insert_torch", "train", "dqn"]

GAMMA = 0.99
N_STEP = 3
ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-4
ETA = 0.996
SEQUENCE_LENGTH = 20
HER_RATIO = 4  # relabelled rows per original one

OURS = "recollect"
PEERS = ("cpprb", "tianshou", "torchrl", "sb3", "rlox")
COMPETITORS = (OURS, *PEERS)


@dataclass(frozen=True, kw_only=True)
class Store:
    """A full store: what it holds and how many environments fed it."""

    kind: Kind
    num_steps: int
    """Transitions that the store holds, over all environments."""
    num_envs: int = 1
    is_small: bool = False
    """Steps as small as CartPole's, float32[4] and one of two actions, where the fixed cost of a call rules."""

    @property
    def episode_length(self) -> int:
        """Steps of each episode: 50 for goals (as in the Fetch tasks), 200 for frames, else 100."""
        return {"her": 50, "frames": 200}.get(self.kind, 100)

    @property
    def prioritised(self) -> bool:
        return self.kind in ("per", "ere")

    @property
    def steps_per_env(self) -> int:
        return self.num_steps // self.num_envs


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One timed operation on one store, and who takes part."""

    key: str
    title: str
    group: str
    """Workloads of a group are held in memory together and timed in turn."""
    store: Store
    operation: Operation
    batch_size: int = 256
    competitors: tuple[str, ...] = COMPETITORS


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """A store whose bytes per transition are measured."""

    key: str
    title: str
    store: Store
    competitors: tuple[str, ...] = COMPETITORS


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How large the stores are, in transitions."""

    steps: int = 1_000_000
    many_steps: int = 10_000_000
    frames: int = 50_000
    small_steps: int = 10_000


FULL = Sizes()
QUICK = Sizes(steps=100_000, many_steps=1_000_000, frames=5_000)


def workloads(sizes: Sizes) -> list[Workload]:
    """List every timed operation, grouped."""
    return [
        *_one_env(sizes),
        *_prioritised(sizes),
        *_sixteen_envs(sizes),
        *_recent(sizes),
        *_structured(sizes),
        *_frames(sizes),
        *_small(sizes),
    ]


def footprints(sizes: Sizes) -> list[Footprint]:
    """List the stores whose memory is measured."""
    return [
        Footprint(key="plain", title="float32[17] / [6]", store=Store(kind="uniform", num_steps=sizes.steps)),
        Footprint(
            key="priorities",
            title="float32[17] / [6] with priorities",
            store=Store(kind="per", num_steps=sizes.steps),
            competitors=(OURS, "cpprb", "tianshou", "torchrl", "rlox"),
        ),
        Footprint(
            key="frames",
            title="uint8 frames 4×84×84",
            store=Store(kind="frames", num_steps=sizes.frames),
        ),
    ]


def select(chosen: Iterable[Workload], names: Iterable[str]) -> list[Workload]:
    """Keep the workloads whose key or group is among `names`."""
    wanted = set(names)
    return [workload for workload in chosen if {workload.key, workload.group} & wanted]


def _one_env(sizes: Sizes) -> list[Workload]:
    store = Store(kind="uniform", num_steps=sizes.steps)
    uniform = Workload(key="uniform", title="uniform sample", group="uniform", store=store, operation="sample")
    return [
        uniform,
        replace(uniform, key="insert", title="insert 1 step", operation="insert"),
        replace(
            uniform,
            key="insert-torch",
            title="insert 1 step, torch input",
            operation="insert_torch",
            competitors=(OURS,),
        ),
        replace(
            uniform,
            key="uniform-many",
            title="uniform sample, 10× the steps",
            store=replace(store, num_steps=sizes.many_steps),
            competitors=(OURS,),
        ),
        Workload(
            key="nstep",
            title=f"n-step {N_STEP} sample",
            group="nstep",
            store=Store(kind="nstep", num_steps=sizes.steps),
            operation="sample",
        ),
    ]


def _prioritised(sizes: Sizes) -> list[Workload]:
    store = Store(kind="per", num_steps=sizes.steps)
    per = Workload(
        key="per",
        title="PER round trip (draw, weights, update)",
        group="per",
        store=store,
        operation="round_trip",
    )
    return [
        per,
        replace(per, key="insert-per", title="insert 1 step, PER", operation="insert"),
        replace(
            per,
            key="insert-per-torch",
            title="insert 1 step, PER, torch input",
            operation="insert_torch",
            competitors=(OURS,),
        ),
        replace(
            per,
            key="per-many",
            title="PER round trip, 10× the steps",
            store=replace(store, num_steps=sizes.many_steps),
            competitors=(OURS,),
        ),
    ]


def _sixteen_envs(sizes: Sizes) -> list[Workload]:
    store = Store(kind="uniform", num_steps=sizes.steps, num_envs=16)
    uniform = Workload(
        key="uniform-16",
        title="uniform sample, 16 envs",
        group="envs-16",
        store=store,
        operation="sample",
    )
    return [
        uniform,
        replace(uniform, key="insert-16", title="insert 16 envs", operation="insert"),
        replace(
            uniform,
            key="insert-16-torch",
            title="insert 16 envs, torch input",
            operation="insert_torch",
            competitors=(OURS,),
        ),
        replace(
            uniform,
            key="nstep-16",
            title=f"n-step {N_STEP} sample, 16 envs",
            store=replace(store, kind="nstep"),
        ),
    ]


def _recent(sizes: Sizes) -> list[Workload]:
    store = Store(kind="per", num_steps=sizes.steps, num_envs=16)
    per = Workload(
        key="per-16",
        title="PER round trip, 16 envs",
        group="per-16",
        store=store,
        operation="round_trip",
    )
    recent = [
        replace(
            per,
            key=f"ere-{lanes}",
            title=f"PER+ERE round trip, {lanes} env{'s' if lanes > 1 else ''}",
            store=replace(store, kind="ere", num_envs=lanes),
            competitors=(OURS,),
        )
        for lanes in (1, 16, 256)
    ]
    insert = replace(per, key="insert-per-16", title="insert 16 envs, PER", operation="insert")
    return [per, *recent, insert]


def _structured(sizes: Sizes) -> list[Workload]:
    return [
        Workload(
            key="her",
            title=f"HER 'future' sample, {HER_RATIO} to 1",
            group="her",
            store=Store(kind="her", num_steps=sizes.steps),
            operation="sample",
        ),
        Workload(
            key="sequences",
            title=f"sequences of {SEQUENCE_LENGTH} steps",
            group="sequences",
            store=Store(kind="sequence", num_steps=sizes.steps),
            operation="sample",
        ),
    ]


def _frames(sizes: Sizes) -> list[Workload]:
    store = Store(kind="frames", num_steps=sizes.frames)
    return [
        Workload(
            key=f"frames-{batch_size}",
            title=f"frames 4×84×84, batch {batch_size}",
            group="frames",
            store=store,
            operation="sample",
            batch_size=batch_size,
        )
        for batch_size in (32, 256)
    ]


def _small(sizes: Sizes) -> list[Workload]:
    """What each step of a loop costs where steps are as small as CartPole's."""
    plain = Store(kind="uniform", num_steps=sizes.small_steps, is_small=True)
    prioritised = replace(plain, kind="per")
    steps = [
        Workload(
            key=f"small-{store.kind}-{batch_size}",
            title=f"CartPole's steps: {what} {batch_size}",
            group="small",
            store=store,
            operation="train",
            batch_size=batch_size,
        )
        for store, what in ((plain, "add and draw"), (prioritised, "add, draw and prioritise"))
        for batch_size in (32, 128)
    ]
    loops = [
        Workload(
            key=f"dqn-{store.kind}",
            title=f"a step of a DQN loop on CartPole{rest}",
            group="dqn",
            store=store,
            operation="dqn",
            batch_size=128,
        )
        for store, rest in ((plain, ""), (prioritised, ", priorities"))
    ]
    return steps + loops
