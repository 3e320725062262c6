"""Batched matrices, the decomposed KL of Gaussians, and gradients as arrays."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from recollect.errors import SchemaError
from recollect.roles import Array


def bt(m: Tensor) -> Tensor:
    """Transpose matrices `[..., n, m]`."""
    return m.transpose(-2, -1)


def btr(m: Tensor) -> Tensor:
    """Traces `[...]` of matrices `[..., n, n]`."""
    return m.diagonal(dim1=-2, dim2=-1).sum(-1)


def gaussian_kl(mu1: Tensor, mu2: Tensor, cov1: Tensor, cov2: Tensor) -> tuple[Tensor, Tensor]:
    """Decoupled KL between two multivariate Gaussians, averaged over the batch.

    How far the mean moved, and how far the covariance moved, each with the other one held at
    distribution 1 (Abdolmaleki et al., 2018, https://arxiv.org/abs/1812.02256).

    Parameters
    ----------
    mu1, mu2 : tensor `[batch, n]`
        Means.
    cov1, cov2 : tensor `[batch, n, n]`
        Covariance matrices.

    Returns
    -------
    kl_mu : scalar tensor
        KL(N(mu1, cov1) || N(mu2, cov1)).
    kl_sigma : scalar tensor
        KL(N(mu1, cov1) || N(mu1, cov2)).
        Both are NaN if a covariance is not positive definite, as where it is NaN itself.
    """
    root1, root2 = _cholesky(cov1), _cholesky(cov2)
    shift = torch.cholesky_solve((mu2 - mu1).unsqueeze(-1), root1).squeeze(-1)  # [batch, n]
    kl_mu = 0.5 * ((mu2 - mu1) * shift).sum(-1)
    log_ratio = 2.0 * (root2.diagonal(dim1=-2, dim2=-1).log() - root1.diagonal(dim1=-2, dim2=-1).log()).sum(-1)
    kl_sigma = 0.5 * (btr(torch.cholesky_solve(cov1, root2)) - mu1.shape[-1] + log_ratio)
    return kl_mu.mean(), kl_sigma.mean()


def get_gradients(*nets: nn.Module, grads_to_cpu: bool = False) -> list[Tensor | None]:
    """Gradients of all trained parameters of `nets`, None where there is none."""
    return take_gradients(list(_trained(nets)), grads_to_cpu=grads_to_cpu)


def set_gradients(*nets: nn.Module, gradients: Sequence[Array | None], device: torch.device | str) -> None:
    """Set the gradients, tensors or arrays, of all trained parameters of `nets`, in the order of `get_gradients`."""
    put_gradients(list(_trained(nets)), gradients, torch.device(device))


def backward(*losses: Tensor) -> None:
    """Let the gradients of losses flow into all that they depend on, in one pass.

    Losses of `losses.regression.fit` that need no graph are passed over: what they depend on has its gradients. Any
    other loss without a graph, such as a multiple of one of those, is autograd's error.
    """
    losses = tuple([loss for loss in losses if loss.requires_grad or not hasattr(loss, "is_followed")])
    if not losses:
        return
    if torch.compiler.is_compiling() or any(loss.dim() for loss in losses):
        torch.autograd.backward(losses)
        return
    # What PyTorch does with scalars then, without its checks: those take 12 µs, an update of a small network 140.
    ones = tuple([torch.ones_like(loss) for loss in losses])
    Variable._execution_engine.run_backward(
        losses, ones, False, False, (), allow_unreachable=True, accumulate_grad=True
    )


@contextmanager
def frozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Let what is computed inside pass on gradients, but give none to some parameters: those are not even computed."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad = True


def take_gradients(parameters: Sequence[nn.Parameter], *, grads_to_cpu: bool) -> list[Tensor | None]:
    """Gradients of `parameters`, None where there is none."""
    gradients = [parameter.grad for parameter in parameters]
    if grads_to_cpu:
        return [gradient if gradient is None else gradient.cpu() for gradient in gradients]
    return gradients


def put_gradients(parameters: Sequence[nn.Parameter], gradients: Sequence[Array | None], device: torch.device) -> None:
    """Set the gradients of `parameters`, from tensors or arrays."""
    if len(parameters) != len(gradients):
        raise SchemaError(f"expected {len(parameters)} gradients, one for each parameter, got {len(gradients)}")
    for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        given = None if gradient is None else torch.as_tensor(gradient, dtype=parameter.dtype, device=device)
        if given is not None and given.shape != parameter.shape:
            expected, got = tuple(parameter.shape), tuple(given.shape)
            raise SchemaError(f"gradient {number} must have the shape of its parameter, {expected}, got {got}")
        parameter.grad = given


def _cholesky(cov: Tensor) -> Tensor:
    """Roots `[..., n, n]` of covariances, NaN where there is none: who learns from them checks losses, not errors."""
    roots: Tensor
    roots, failures = torch.linalg.cholesky_ex(cov)
    return roots.masked_fill(failures.ne(0)[..., None, None], math.nan)


def _trained(nets: Sequence[nn.Module]) -> Iterator[nn.Parameter]:
    return (parameter for net in nets for parameter in net.parameters() if parameter.requires_grad)
