"""Locks that are free in a forked process, with no critical section left half done."""

import os
from threading import Lock, RLock
from time import sleep
from typing import Any, Final
from weakref import WeakSet

_TIMEOUT_S: Final = 0.05
_adding: Final = Lock()
_all: "WeakSet[RLock]" = WeakSet()
_held: "list[RLock]" = []


def make_lock() -> "RLock":
    """A re-entrant lock that a fork waits for.

    Of all threads, a forked process has the one that forked alone. What another one had locked would be locked there
    forever, so the thread that forks takes all locks first.
    """
    lock = RLock()
    with _adding:
        _all.add(lock)
    return lock


def _take_all() -> None:
    first: Any = None
    while True:
        with _adding:
            locks = list(_all)
        # A thread that waits for one lock and has another would stop one that has them the other way round.
        locks.sort(key=lambda lock: lock is not first)
        missing = _take(locks)
        if missing is None and _adding.acquire(timeout=_TIMEOUT_S):
            if len(_all) <= len(locks):
                _held.extend(locks)
                return
            _adding.release()
        _release(locks if missing is None else locks[: locks.index(missing)])
        first = missing
        sleep(0)


def _take(locks: "list[RLock]") -> "RLock | None":
    """Take locks, waiting as long as need be for the first one alone; returns the one that could not be had."""
    for index, lock in enumerate(locks):
        if not lock.acquire(timeout=_TIMEOUT_S if index else -1):
            return lock
    return None


def _release(locks: "list[RLock]") -> None:
    for lock in locks:
        lock.release()


def _release_all() -> None:
    locks = _held.copy()
    _held.clear()
    _adding.release()
    _release(locks)


os.register_at_fork(before=_take_all, after_in_parent=_release_all, after_in_child=_release_all)
