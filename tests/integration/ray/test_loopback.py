"""A cluster that we start ourselves, and all that its workers open, can be reached from this machine alone."""

import ipaddress
import json
import os
import subprocess
import sys
from typing import Final

import pytest

from tests.integration.ray.cluster import ROOT

DRIVER: Final = """
import json, psutil
from contextlib import suppress
from tests.schemes import make_scheme

workers = {"num_grad_workers": 2, "num_col_workers": 1, "update_mode": "decentralised"}
resources = {"col_resources": {"num_cpus": 0.1}, "grad_resources": {"num_cpus": 0.1}}
scheme = make_scheme(workers=workers | resources)
for _ in range(6):
    scheme.update_worker.step()
own, found = psutil.Process(), []
for process in [own, *own.children(recursive=True)]:
    with suppress(psutil.NoSuchProcess):
        name = " ".join(process.cmdline())[:200]
        sockets = process.net_connections("inet")
        found += [[name, each.laddr.ip] for each in sockets if each.status == psutil.CONN_LISTEN]
scheme.stop()
print(json.dumps(found))
"""


@pytest.mark.slow
def test_nothing_that_a_run_starts_listens_beyond_this_machine() -> None:
    # Ray makes workers give way to all other processes, such as those of other tests.
    env = {**os.environ, "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", DRIVER]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    names = " ".join(name for name, _ in found)
    assert all(part in names for part in ("gcs_server", "raylet", "ray::PeerWorker", "ray::CWorker")), names
    assert [each for each in found if not is_loopback(each[1])] == []


def is_loopback(text: str) -> bool:
    """Whether an address leads back to this machine, also one of version 4 in the form of version 6."""
    address = ipaddress.ip_address(text)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
