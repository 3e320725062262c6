"""The only module that imports Ray: connects, puts, gets, waits; every call ends with a result or an error.

Ray is imported when the first of these functions is called, so that training in one process does without it.
"""

import importlib
import logging
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple, Protocol

from recollect.errors import ConfigError
from recollect.extras import import_extra

_LOG = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
CONTROL_GROUP: Final = "control"
"""Concurrency group of calls that reach a worker while it is busy."""


class RemoteMethod(Protocol):
    """A method of a remote worker, as Ray gives it."""

    def remote(self, *args: object) -> object: ...
    def options(self, *, concurrency_group: str) -> "RemoteMethod": ...


class RemoteHandle(Protocol):
    """A remote worker, as Ray gives it."""

    def __getattr__(self, name: str) -> RemoteMethod: ...


class Outcome(NamedTuple):
    """How a call ended: with a value, or with an error that names the reason."""

    value: Any = None
    error: Exception | None = None


def require_ray() -> Any:
    """Import Ray, or say how to install it."""
    otherwise = "; or use no remote workers, which trains in this process"
    return import_extra("ray", "ray", "remote workers need", otherwise)


def is_connected() -> bool:
    """Whether this process is part of a Ray cluster."""
    return bool(require_ray().is_initialized())


def connect(address: str | None = None, runtime_env: Mapping[str, Any] | None = None) -> bool:
    """Become part of a Ray cluster, if this process is not already; returns whether it has joined only now.

    Parameters
    ----------
    address : str, optional
        Of an existing cluster, `"auto"` for the one on this machine; None starts a private one, which listens on
        the loopback address alone.
    runtime_env : mapping, optional
        What workers need beside what is installed where they run; see Ray's runtime environments.
    """
    ray = require_ray()
    if ray.is_initialized():
        if runtime_env:
            _LOG.warning(
                "this process is part of a Ray cluster already, so runtime_env has no effect: give it to ray.init"
            )
        return False
    options: dict[str, Any] = {"runtime_env": dict(runtime_env)} if runtime_env else {}
    starting: AbstractContextManager[None] = nullcontext()
    if address is None:
        options |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
        starting = _loopback_kept()
    try:
        with _signals_blocked(), starting:
            # Without an address Ray would join a cluster that somebody else has left running on this machine.
            ray.init(address=address or "local", logging_level=logging.WARNING, **options)
    except ConnectionError as error:
        raise ConfigError(
            f"there is no Ray cluster at {address!r} ({error}); start one with `ray start --head`, "
            "or leave the address out to use this machine alone"
        ) from error
    except (TypeError, ValueError) as error:
        # A private cluster may have been started by now.
        ray.shutdown()
        raise ConfigError(
            f"Ray does not take the address {address!r} with the runtime environment {options.get('runtime_env')!r}: "
            f"{error}"
        ) from error
    _LOG.info("joined the Ray cluster %s", ray.get_runtime_context().gcs_address)
    return True


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Have processes that are started meanwhile, and theirs, be deaf to signals that end a run; here they come later.

    Schedulers and terminals send them to all processes of a run at once, but the driver still needs its workers to
    finish a stage, and then ends them itself. Ctrl-C is blocked by Ray.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _loopback_kept() -> Iterator[None]:
    """Have Ray take a loopback address as it is given, and not replace it by one that other machines can reach."""
    services: Any = importlib.import_module("ray._private.services")
    before = services.resolve_ip_for_localhost
    services.resolve_ip_for_localhost = lambda host: host
    try:
        yield
    finally:
        services.resolve_ip_for_localhost = before


def disconnect() -> None:
    """Leave the cluster; one that was started by this process ends."""
    require_ray().shutdown()


def put(value: object) -> Any:
    """Put a value into the object store once, to be read by many; returns its reference."""
    return require_ray().put(value)


def fetch(value: object) -> Any:
    """Get what a reference stands for; what is no reference is returned as it is."""
    ray = sys.modules.get("ray")
    if ray is None or not isinstance(value, ray.ObjectRef):
        return value
    return ray.get(value)


def ready(references: Sequence[object], timeout_s: float) -> list[object]:
    """Wait until at least one of the references has come to its end, or `timeout_s` have passed."""
    ray = require_ray()
    found, rest = ray.wait(list(references), num_returns=1, timeout=timeout_s)
    if found and rest:
        found += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
    return list(found)


def all_ready(references: Sequence[object], timeout_s: float) -> None:
    """Wait until all of the references have come to their ends, or `timeout_s` have passed."""
    if references:
        require_ray().wait(list(references), num_returns=len(references), timeout=timeout_s)


def outcome(reference: object) -> Outcome:
    """Get what a call brought: its value, or the error that ended it."""
    ray = require_ray()
    try:
        return Outcome(value=ray.get(reference))
    except ray.exceptions.RayError as error:
        return Outcome(error=error)


def original_text(error: BaseException) -> str:
    """What a worker itself said of an error: its traceback, or why it died."""
    traceback: str | None = getattr(error, "traceback_str", None)
    return traceback or str(error)


def one_line(error: BaseException) -> str:
    """What happened, in one line."""
    cause = cause_of(error)
    if cause is not error:
        return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"
    if is_build_failure(error):
        return str(error).strip().splitlines()[-1]
    return str(error).split(". ")[0].split("\n")[0].strip() or type(error).__name__


def is_build_failure(error: BaseException) -> bool:
    """Whether a worker's constructor raised."""
    return bool(getattr(error, "actor_init_failed", False))


def is_loss(error: BaseException) -> bool:
    """Whether a worker was lost, its process or its node, and has not raised an error itself."""
    exceptions = require_ray().exceptions
    return isinstance(error, exceptions.RayError) and not isinstance(error, exceptions.RayTaskError)


def cause_of(error: BaseException) -> BaseException:
    """The error that a worker raised, if it raised one; else the error as it is."""
    cause: BaseException | None = getattr(error, "cause", None)
    return error if cause is None else cause


def kill(handle: RemoteHandle) -> None:
    """End a remote worker's process at once."""
    ray = require_ray()
    with suppress(ray.exceptions.RayError):
        ray.kill(handle, no_restart=True)


def nodes() -> list[dict[str, float]]:
    """Resources of each node that is alive, by name."""
    return [dict(node["Resources"]) for node in require_ray().nodes() if node["Alive"]]


def free_resources() -> dict[str, float]:
    """Resources of the whole cluster that nobody holds now, by name."""
    return dict(require_ray().available_resources())


def node_id() -> str:
    """Ray's name of the node that this process is on."""
    return str(require_ray().get_runtime_context().get_node_id())


def node_address() -> str:
    """Address of the node that this process is on."""
    return str(require_ray().util.get_node_ip_address())
