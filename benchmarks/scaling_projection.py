"""How far collection scales beyond what was measured, from the cost of a message and of a byte."""

from dataclasses import dataclass

SYNC = "sync"
ASYNC = "async"


@dataclass(frozen=True)
class Costs:
    """What the one process that stores spends on what workers send, in seconds.

    Attributes
    ----------
    message_s : float
        For each message, however short.
    byte_s : float
        For each byte of it.
    """

    message_s: float
    byte_s: float

    def intake_s(self, num_bytes: float) -> float:
        """Time of one message."""
        return self.message_s + num_bytes * self.byte_s


@dataclass(frozen=True)
class Load:
    """What one worker sends.

    Attributes
    ----------
    steps_per_message : int
        Steps of all its envs in one message.
    bytes_per_step : float
        Bytes of each.
    step_s : float
        Seconds that a step takes the worker.
    """

    steps_per_message: int
    bytes_per_step: float
    step_s: float

    @property
    def num_bytes(self) -> float:
        """Bytes of a message."""
        return self.steps_per_message * self.bytes_per_step

    @property
    def collect_s(self) -> float:
        """Seconds that a worker takes for the steps of a message."""
        return self.steps_per_message * self.step_s


def most_steps_per_s(costs: Costs, load: Load) -> float:
    """Steps per second of all workers together that one process can store.

    Examples
    --------
    >>> most_steps_per_s(Costs(message_s=1e-3, byte_s=1e-9), Load(100, 10_000, 0.01))
    50000.0
    """
    return load.steps_per_message / costs.intake_s(load.num_bytes)


def efficiency(costs: Costs, load: Load, num_workers: int, mode: str) -> float:
    """Share of the rate of workers that never wait.

    Synchronous workers wait in every stage until what all have sent is stored; asynchronous ones only once the
    process that stores is busy all the time.
    """
    all_s = num_workers * costs.intake_s(load.num_bytes)
    if mode == SYNC:
        return load.collect_s / (load.collect_s + all_s)
    return min(1.0, load.collect_s / all_s)


def most_workers(costs: Costs, load: Load, mode: str, least_efficiency: float) -> int:
    """Workers that are at least so efficient.

    Examples
    --------
    >>> costs, load = Costs(message_s=1e-3, byte_s=0.0), Load(100, 100, 0.01)
    >>> most_workers(costs, load, SYNC, 0.5), most_workers(costs, load, ASYNC, 0.5)
    (1000, 2000)
    """
    share = 1 / least_efficiency
    waits = share - 1 if mode == SYNC else share
    return int(waits * load.collect_s / costs.intake_s(load.num_bytes) + 1e-9)
