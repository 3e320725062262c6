"""Signals reach all processes of a run at once: the driver alone acts on them, and ends the others in order."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final

import psutil

from tests.integration.ray.cluster import ROOT
from tests.waiting import PATIENCE_S, wait_until

# Ray takes some seconds to end itself once it has heard of SIGTERM, and the driver with it.
DRIVER: Final = """
import signal, time
from tests.schemes import make_scheme

heard = []
scheme = make_scheme(workers={"num_col_workers": 1, "col_resources": {"num_cpus": 0.1}})
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: heard.append(number))
scheme.update_worker.step()
print("ready", flush=True)
while len(heard) < 3:
    scheme.update_worker.step()
end = time.monotonic() + 10
while time.monotonic() < end:
    scheme.update_worker.step()
scheme.stop()
print("restarts", scheme.status().reports[0].restarts)
"""


def session(leader: int) -> list[int]:
    """Ids of the processes of a session that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def send_all(leader: int, number: int) -> None:
    """Send a signal to all processes of a session, as schedulers do."""
    for pid in session(leader):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_driver_outlives_signals_to_all_of_its_processes_and_leaves_none() -> None:
    command = [sys.executable, "-c", DRIVER]
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            send_all(driver.pid, number)
        out, _ = driver.communicate(timeout=PATIENCE_S)
        assert (driver.returncode, out) == (0, "restarts 0\n")
        wait_until(lambda: not session(driver.pid), "the end of all processes of the run")
    finally:
        send_all(driver.pid, signal.SIGKILL)
