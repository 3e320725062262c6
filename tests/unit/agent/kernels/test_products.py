"""Matrix products inside kernels, and rows that threads share out."""

import ctypes
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import booleans, integers, sampled_from

from recollect.agent.actors.networks.mlp import fused_stack
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.kernels import products, threads
from tests.unit.agent.kernels.test_kernels import gradients

ROUTINES = {products.by_blas: "sgemm_", products.by_blocks: products.BRGEMM}
SIZES = integers(0, 40) | sampled_from((63, 64, 129, 255, 256, 257, 600))


@pytest.mark.parametrize("routine", [products.by_blas, products.by_blocks])
@given(
    rows=SIZES, columns=SIZES, inner=SIZES, is_left_turned=booleans(), is_right_turned=booleans(), seed=integers(0, 9)
)
def test_products_are_those_of_numpy(
    routine: Any, rows: int, columns: int, inner: int, is_left_turned: bool, is_right_turned: bool, seed: int
) -> None:
    if products.find_routine(ROUTINES[routine]) is None:
        pytest.skip("PyTorch's build has no such routine")
    generator = np.random.default_rng(seed)
    left, right = (generator.standard_normal(shape, np.float32) for shape in ((rows, inner), (inner, columns)))
    stored = [
        np.ascontiguousarray(matrix.T) if is_turned else matrix
        for matrix, is_turned in ((left, is_left_turned), (right, is_right_turned))
    ]
    result = np.full((rows + 1, columns), 7.0, np.float32)
    multiply = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(routine.address)
    places = [matrix.ctypes.data for matrix in (*stored, result)]
    multiply(is_left_turned, is_right_turned, rows, columns, inner, *places)
    np.testing.assert_allclose(result[:rows], left.astype(float) @ right, rtol=1e-5, atol=1e-4)
    assert (result[rows:] == 7.0).all(), "nothing is written beyond the result"


_WITHOUT_BLAS = """
import ctypes
import numba
import torch

class Library:
    def __init__(self, path): pass

ctypes.CDLL = Library
from recollect.agent.kernels.products import HAS_PRODUCTS
from recollect.agent.actors.networks.mlp.dense import MLP
assert not HAS_PRODUCTS
assert MLP((3, 4, 2))(torch.zeros(5, 3)).shape == (5, 2)
"""


def test_without_the_routine_operators_compute() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_BLAS], check=True)


@pytest.mark.parametrize("num_threads", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 300])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
def test_threads_share_out_the_rows(
    num_threads: int, rows: int, activation: Any, is_trained: bool, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    ensemble = EnsembleMLP(2, (5, 64, 17, 3), activation=activation)
    ensemble.requires_grad_(is_trained)
    inputs = torch.randn(*((2,) if is_own else ()), rows, 5, requires_grad=True)
    slopes = torch.randn(2, rows, 3) * torch.randint(2, (2, rows, 1))
    expected = gradients(ensemble, inputs, slopes)
    shares = []

    def shared(work: int) -> int:
        shares.append(work)
        return num_threads

    monkeypatch.setattr(fused_stack, "num_shares", shared)
    found = gradients(ensemble, inputs, slopes)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert [torch.equal(a, b) for a, b in zip(gradients(ensemble, inputs, slopes), found, strict=True)] == [True] * len(
        found
    ), "sums are the same each time"
    work = 2 * rows * (5 * 64 + 64 * 17 + 17 * 3)
    assert shares == [work] * 4 if fused_stack.HAS_PRODUCTS else not shares


def test_threads_that_were_asked_for_share_out_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "HAS_THREADS", True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [threads.num_shares(work) for work in (1, 3_999_999, 4_000_000, 6_000_000, 10**9)] == [1, 1, 2, 3, 4]
    monkeypatch.setattr(threads, "HAS_THREADS", False)
    assert threads.num_shares(10**9) == 1


@pytest.mark.parametrize(
    ("processor", "capability", "limit", "expected"),
    [
        ("znver5", "AVX512", "", True),
        ("znver3", "AVX2", "", True),
        ("znver5", "AVX512", "AVX512_CORE", True),
        ("znver5", "DEFAULT", "", False),
        ("znver5", "AVX512", "sse41", False),
        ("znver5", "AVX512", "AVX", False),
        ("sapphirerapids", "AVX512", "", False),
        ("x86-64", "AVX2", "", False),
    ],
)
def test_blocks_are_taken_where_blas_leaves_vectors_unused(
    processor: str, capability: str, limit: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products.binding, "get_host_cpu_name", lambda: processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert products.are_blocks_faster() is expected
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not products.are_blocks_faster()


_SIZES = """
import ctypes
import sys

import numpy as np
from llvmlite import binding

kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6, ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int32)
sizes, add = set(), binding.add_symbol
noting = kind(lambda *given: sizes.add(given[:6]))
place_of = {"recollect_brgemm": ctypes.cast(noting, ctypes.c_void_p).value}
binding.add_symbol = lambda name, place: add(name, place_of.get(name, place))

from recollect.agent.kernels.products import by_blocks

numbers = [np.zeros(400 * 64, np.float32) for _ in range(3)]
multiply = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(by_blocks.address)
for rows in range(200, 400):
    multiply(1, 0, 64, 6, rows, *[each.ctypes.data for each in numbers])
    multiply(0, 1, rows, 6, 48, *[each.ctypes.data for each in numbers])
sys.stdout.write(str(len(sizes)))
"""


def test_batches_of_any_length_need_routines_of_few_sizes() -> None:
    run = subprocess.run([sys.executable, "-c", _SIZES], check=True, capture_output=True, text=True)
    # oneDNN compiles one for each, 65 kB, and keeps it: of 1, 2, 4, …, 256 rows, for both kinds of products.
    assert int(run.stdout) == 2 * 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_waits_for_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "HAS_THREADS", True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the child does not need
        child = os.fork()
    if not child:
        os._exit(threads.num_shares(10**9))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert threads.num_shares(10**9) == 4


def test_networks_compute_in_several_threads_at_once() -> None:
    torch.manual_seed(1)
    ensembles = [EnsembleMLP(2, (17, 256, 256, 1)) for _ in range(4)]
    inputs = [torch.randn(300, 17, requires_grad=True) for _ in ensembles]
    slopes = torch.randn(2, 300, 1)
    expected = [gradients(ensemble, rows, slopes) for ensemble, rows in zip(ensembles, inputs, strict=True)]
    with ThreadPoolExecutor(len(ensembles)) as pool:
        for _ in range(5):
            found = list(pool.map(gradients, ensembles, inputs, [slopes] * len(ensembles)))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
