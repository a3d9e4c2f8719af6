r"""Schedules given as a table over whole steps, continued between them.

A network trained on steps :math:`i = 0 \dots N-1` with :math:`\bar\alpha_i` sees
:math:`x = \sqrt{\bar\alpha_i}\,x_0 + \sqrt{1 - \bar\alpha_i}\,\varepsilon`, of noise level
:math:`\sigma_i = \sqrt{1/\bar\alpha_i - 1}`. Between the steps the index is interpolated against
:math:`\ln\sigma`, and a step without any data left (:math:`\bar\alpha = 0`, "zero terminal SNR") has no noise
level: it is dropped, since neither the frame y = x/a nor a noise prediction exists there.

References:
    Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models", 2020, https://arxiv.org/abs/2006.11239
    Lin, Liu, Li, Yang, "Common Diffusion Noise Schedules and Sample Steps are Flawed", 2024,
        https://arxiv.org/abs/2305.08891
"""

from functools import cache

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.schedules import Schedule


def table_schedule(alphas_cumprod: Tensor, *, name: str = "table") -> Schedule:
    """The schedule of a table of cumulative products, its clock the step index.

    Args:
        alphas_cumprod: Shares of the data's variance, decreasing, shape (steps,).
        name: Its name.

    Returns:
        A variance-preserving schedule on 0 to the last step that has data left.

    Raises:
        SettingError: If fewer than two steps are usable, or the noise does not grow from step to step.
    """
    shares = alphas_cumprod.detach().cpu().double()
    kept = shares[(shares > 0) & (shares < 1)]
    logs = 0.5 * (torch.log1p(-kept) - kept.log())
    if len(kept) < 2 or bool((logs.diff() <= 0).any()):
        raise SettingError(
            f"a noise table of {len(shares)} steps, {len(kept)} of them with both data and noise",
            "at least two steps of growing noise",
            "the scheduler's own alphas_cumprod",
        )
    offset = int((shares >= 1).sum())  # steps without any noise come first

    @cache
    def table(dtype: torch.dtype, device: torch.device) -> Tensor:
        return logs.to(device=device, dtype=dtype)

    def between(low: Tensor, place: Tensor, values: Tensor) -> Tensor:
        return torch.lerp(values[low], values[low + 1], place)

    def levels(t: Tensor) -> tuple[Tensor, Tensor]:
        values = table(t.dtype, t.device)
        index = (t - offset).clamp(0, len(kept) - 1)
        low = index.detach().floor().long().clamp(max=len(kept) - 2)
        sigma = between(low, index - low, values).exp()
        a = torch.rsqrt(1.0 + sigma.square())
        return a, sigma * a

    def inverse(sigma: Tensor) -> Tensor:
        values, wanted = table(sigma.dtype, sigma.device), sigma.log()
        high = torch.searchsorted(values, wanted.detach().contiguous()).clamp(1, len(kept) - 1)
        low = high - 1
        return offset + low + (wanted - values[low]) / (values[high] - values[low])

    return Schedule(name, levels, float(offset + len(kept) - 1), float(offset), inverse)


def dropped_steps(alphas_cumprod: Tensor) -> int:
    """How many steps of a table have no data left."""
    return int((alphas_cumprod <= 0).sum())
