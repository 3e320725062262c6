import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect.agent.algorithms.utils import backward, bt, btr, gaussian_kl, get_gradients, set_gradients
from recollect.errors import SchemaError


def covariances(num: int, seed: int) -> Tensor:
    roots = torch.randn(num, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return roots @ bt(roots) + 0.5 * torch.eye(3, dtype=torch.float64)


def means(num: int, seed: int) -> Tensor:
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_transpose_and_trace_of_batches() -> None:
    matrices = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    assert bt(matrices).tolist() == [[[1.0, 3.0], [2.0, 4.0]], [[5.0, 7.0], [6.0, 8.0]]]
    assert btr(matrices).tolist() == [5.0, 13.0]
    assert bt(torch.zeros(4, 2, 3)).shape == (4, 3, 2)


def test_gaussian_kl_with_numbers_worked_by_hand() -> None:
    ones, twos = torch.tensor([[[1.0]]]), torch.tensor([[[2.0]]])
    kl_mu, kl_sigma = gaussian_kl(torch.tensor([[0.0]]), torch.tensor([[3.0]]), ones, twos)
    # The mean moved by three deviations of the first; the variance doubled.
    assert float(kl_mu) == pytest.approx(4.5)
    assert float(kl_sigma) == pytest.approx(0.5 * (0.5 - 1 + 0.693147))


def test_gaussian_kl_holds_the_other_part_at_the_first_distribution() -> None:
    mu1, mu2, cov1, cov2 = means(4, 0), means(4, 1), covariances(4, 2), covariances(4, 3)
    normal = torch.distributions.MultivariateNormal
    first = normal(mu1, cov1)
    kl_mu, kl_sigma = gaussian_kl(mu1, mu2, cov1, cov2)
    torch.testing.assert_close(kl_mu, torch.distributions.kl_divergence(first, normal(mu2, cov1)).mean())
    torch.testing.assert_close(kl_sigma, torch.distributions.kl_divergence(first, normal(mu1, cov2)).mean())


def test_gaussian_kl_of_equals_is_zero_and_differentiable() -> None:
    mu, cov = means(4, 0).requires_grad_(), covariances(4, 1).requires_grad_()
    kls = gaussian_kl(mu.detach(), mu, cov.detach(), cov)
    sum(kls, torch.zeros(())).backward()
    for kl in kls:
        assert kl.item() == pytest.approx(0.0, abs=1e-12)
    assert mu.grad is not None
    assert cov.grad is not None
    assert cov.grad.isfinite().all()


@pytest.mark.parametrize("value", [float("nan"), 0.0, -1.0])
def test_gaussian_kl_is_nan_where_a_covariance_is_none(value: float) -> None:
    mu, cov, broken = means(4, 0), covariances(4, 1), covariances(4, 1)
    broken[2] = value * torch.eye(3)
    for pair in ((cov, broken), (broken, cov)):
        assert gaussian_kl(mu, mu, *pair)[1].isnan()


@pytest.fixture
def nets() -> tuple[nn.Module, nn.Module]:
    frozen = nn.Linear(2, 2).requires_grad_(False)
    return nn.Sequential(nn.Linear(3, 2), frozen), nn.Linear(2, 1, bias=False)


@pytest.mark.parametrize("grads_to_cpu", [True, False])
def test_gradients_come_in_the_order_of_the_trained_parameters(
    nets: tuple[nn.Module, nn.Module], grads_to_cpu: bool
) -> None:
    first, second = nets
    first(torch.ones(1, 3)).sum().backward()
    gradients = get_gradients(first, second, grads_to_cpu=grads_to_cpu)
    assert [None if gradient is None else tuple(gradient.shape) for gradient in gradients] == [(2, 3), (2,), None]


def test_gradients_that_were_taken_can_be_set(nets: tuple[nn.Module, nn.Module]) -> None:
    first, second = nets
    given = [torch.full((2, 3), 1.0), None, torch.full((1, 2), 3.0)]
    set_gradients(first, second, gradients=given, device="cpu")
    found = get_gradients(first, second)
    assert found[1] is None
    torch.testing.assert_close(found[::2], given[::2])


def test_the_wrong_number_of_gradients_is_refused(nets: tuple[nn.Module, nn.Module]) -> None:
    with pytest.raises(SchemaError, match=r"expected 3 gradients.*got 1"):
        set_gradients(*nets, gradients=[None], device="cpu")


def test_gradients_come_in_the_dtype_and_the_shape_of_their_parameters() -> None:
    net = nn.Linear(2, 2)
    set_gradients(net, gradients=[np.ones((2, 2)), np.ones(2, np.int64)], device="cpu")
    assert [parameter.grad.dtype for parameter in net.parameters()] == [torch.float32] * 2  # type: ignore[union-attr]
    with pytest.raises(SchemaError, match=r"gradient 1 must have the shape of its parameter, \(2,\), got \(2, 2\)"):
        set_gradients(net, gradients=[torch.ones(2, 2), torch.ones(2, 2)], device="cpu")


def test_only_losses_whose_gradients_are_in_place_may_have_no_graph() -> None:
    weight, followed = torch.tensor(2.0, requires_grad=True), torch.tensor(1.0)
    followed.is_followed = True  # type: ignore[attr-defined]
    backward(followed, weight.square())
    assert weight.grad == 4.0
    backward(followed)
    backward()
    assert weight.grad == 4.0
    with pytest.raises(RuntimeError, match="does not require grad"):
        backward(torch.tensor(1.0))
