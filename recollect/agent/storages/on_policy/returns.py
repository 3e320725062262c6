"""Returns and advantages of whole streams of steps, one pure function per equation.

Arrays are time-major, `[time, ...]`, every other axis a stream of its own. `v_t` is the value of the
observation that step t acted on and `v_tp1` that of the one it led to, the true last one where an
episode ended. `discount_t` is γ, and 0 where step t terminated its episode. `continues_t` is 1 where
step t + 1 of the array is the next of the same stream: 0 at an episode's end, at a break and at the
last step, so that each of them bootstraps from `v_tp1` alone.
"""

import torch
from torch import Tensor

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.row_kernels import sum_backwards


def gae(r_t: Tensor, discount_t: Tensor, v_t: Tensor, v_tp1: Tensor, continues_t: Tensor, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv 1506.02438), `[time, ...]`.

    `A_t = δ_t + λ discount_t A_{t+1}` with `δ_t = r_t + discount_t v_{t+1} - v_t`.
    """
    delta_t = r_t + discount_t * v_tp1 - v_t
    return _sum_backwards(delta_t, gae_lambda * discount_t * continues_t)


def vtrace(
    r_t: Tensor,
    discount_t: Tensor,
    v_t: Tensor,
    v_tp1: Tensor,
    continues_t: Tensor,
    log_rho_t: Tensor,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    trace_lambda: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """V-trace targets and advantages (Espeholt et al. 2018, arXiv 1802.01561), each `[time, ...]`.

    Advantages are not weighed by the ratio of the policies: a policy gradient does that.

    Parameters
    ----------
    log_rho_t : tensor `[time, ...]`
        Log-probability of the action under the policy that learns, less that under the one that acted.
    rho_bar, c_bar : float
        Where the importance weights of corrections and of traces are clipped.
    trace_lambda : float
        Decay of the traces; 1 is the paper's equation 1, less trades variance for bias (its remark 2).
    """
    ratio_t = torch.exp(log_rho_t)
    rho_t = ratio_t.clamp(max=rho_bar)
    c_t = trace_lambda * ratio_t.clamp(max=c_bar)
    delta_t = rho_t * (r_t + discount_t * v_tp1 - v_t)
    correction_t = _sum_backwards(delta_t, discount_t * c_t * continues_t)
    target_tp1 = v_tp1 + trace_lambda * continues_t * _following(correction_t)
    return v_t + correction_t, (r_t + discount_t * target_tp1 - v_t)


def _sum_backwards(term_t: Tensor, decay_t: Tensor) -> Tensor:
    """`x_t = term_t + decay_t x_{t+1}`, from the last step to the first."""
    term_t, decay_t = term_t.contiguous(), decay_t.contiguous()
    sums = torch.empty_like(term_t)
    if term_t.dim() == 2 and are_fusible(term_t, decay_t, sums):
        sum_backwards(term_t.numpy(), decay_t.numpy(), sums.numpy())
        return sums
    running = torch.zeros_like(term_t[0])
    for step in range(len(term_t) - 1, -1, -1):
        running = torch.addcmul(term_t[step], decay_t[step], running, out=sums[step])
    return sums


def _following(values_t: Tensor) -> Tensor:
    """The values one step later, 0 after the last."""
    return torch.cat([values_t[1:], torch.zeros_like(values_t[:1])])
