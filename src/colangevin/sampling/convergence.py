"""Have the chains converged? R-hat, effective sample sizes and autocorrelation times.

R-hat and the effective sample size follow Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021):
chains split in two, values replaced by normal scores of their ranks. All functions take
[chains, draws, ...] and return one number per remaining entry.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _columns(samples: Tensor) -> Tensor:
    """[chains, draws, ...] as float64 [columns, chains, draws].

    Raises:
        ValueError: if there are too few draws.
    """
    if samples.dim() < 2 or samples.shape[1] < 4:
        raise ValueError(
            f"samples must be [chains, draws, ...] with at least 4 draws, got shape "
            f"{tuple(samples.shape)}"
        )
    return samples.detach().double().reshape(*samples.shape[:2], -1).movedim(2, 0)


def _split(columns: Tensor) -> Tensor:
    half = columns.shape[2] // 2
    return torch.cat([columns[:, :, :half], columns[:, :, -half:]], dim=1)


def _sorted(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in order, and where its numbers come from; ties in any order.

    The order is NumPy's where there is one: it is several times as fast.
    """
    try:
        order = torch.from_numpy(rows.cpu().numpy().argsort(axis=1)).to(rows.device)
    except RuntimeError:  # no NumPy
        return rows.sort(dim=1)
    return rows.gather(1, order), order


def _ranked(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Normal scores of the ranks among all chains, where ties share their rank; the medians."""
    flat = columns.flatten(1).contiguous()
    ordered, order = _sorted(flat)
    count = flat.shape[1]
    place = torch.arange(count).expand_as(flat)
    other = ordered[:, 1:] != ordered[:, :-1]
    if not bool(other.all()):
        ends = torch.nn.functional.pad(other, (1, 1), value=True)
        first = torch.where(ends[:, :-1], place, 0).cummax(dim=1).values
        last = torch.where(ends[:, 1:], place, count).flip(1).cummin(dim=1).values.flip(1)
        place = (first + last) / 2.0
    scores = torch.special.ndtri((place.double() + 0.625) / (count + 0.25))
    middle = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2.0
    return torch.empty_like(flat).scatter_(1, order, scores).view(columns.shape), middle


def _plain_rhat(columns: Tensor) -> Tensor:
    draws = columns.shape[2]
    within = columns.var(dim=2).mean(dim=1)
    between = columns.mean(dim=2).var(dim=1) * draws
    return ((between / within + draws - 1) / draws).sqrt()


def rhat(samples: Tensor) -> Tensor:
    """The rank-normalised split R-hat: the larger of that of the values and of their spread.

    1 means that the chains agree; above 1.05 they should run longer.

    Example:
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch...
        >>> bool(rhat(torch.randn(4, 500)) < 1.02), bool(rhat(torch.randn(4, 500).cumsum(1)) > 1.2)
        (True, True)
    """
    columns = _split(_columns(samples))
    return _rank_rhat(columns, *_ranked(columns)).view(samples.shape[2:])


def _rank_rhat(columns: Tensor, scores: Tensor, median: Tensor) -> Tensor:
    folded = _ranked((columns - median.view(-1, 1, 1)).abs())[0]
    found = torch.maximum(_plain_rhat(scores), _plain_rhat(folded))
    constant = (columns == columns[:, :1, :1]).flatten(1).all(dim=1)
    return torch.where(constant, torch.nan, found)


def rhat_and_ess(samples: Tensor) -> tuple[Tensor, Tensor]:
    """``rhat`` and ``ess``, which take the same ranks.

    Example:
        >>> draws = torch.randn(4, 100, 3)
        >>> hats, sizes = rhat_and_ess(draws)
        >>> torch.equal(hats, rhat(draws)), torch.equal(sizes, ess(draws))
        (True, True)
    """
    columns, shape = _split(_columns(samples)), samples.shape[2:]
    scores, median = _ranked(columns)
    return _rank_rhat(columns, scores, median).view(shape), _effective(scores).view(shape)


def nested_rhat(samples: Tensor, groups: int) -> Tensor:
    """The nested R-hat of many short chains (Margossian and others 2024): √(1 + B/W).

    Chains that started at one point are a group. B is the variance between the means of groups, W
    that within them: between chains and in time. A chain may be as short as one draw, since a
    group's mean averages over its chains. Chains of one group that have different starts tell
    less: their differences are within the group.

    Args:
        samples: [chains, draws, ...], chains of a group one after the other.
        groups: how many.

    Raises:
        ValueError: if there are fewer than two groups, or chains cannot be divided so.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> apart = torch.arange(4.0).repeat_interleave(50).view(200, 1)
        >>> near = torch.randn(200, 3)
        >>> bool(nested_rhat(near, 4) < 1.02), bool(nested_rhat(near + apart, 4) > 1.4)
        (True, True)
    """
    chains, draws = samples.shape[:2]
    if groups < 2 or chains % groups or chains == groups:
        raise ValueError(
            f"groups must be at least 2 and divide the chains into two or more each, got {groups} "
            f"for {chains} chains"
        )
    columns = samples.detach().double().reshape(groups, chains // groups, draws, -1)
    means = columns.mean(dim=2)
    within = means.var(dim=1)
    if draws > 1:
        within = within + columns.var(dim=2).mean(dim=1)
    between = means.mean(dim=1).var(dim=0)
    return (1.0 + between / within.mean(dim=0)).sqrt().view(samples.shape[2:])


def quick_rhat(samples: Tensor) -> Tensor:
    """The plain split R-hat: of the values, not of their ranks. It needs one pass."""
    return _plain_rhat(_split(_columns(samples))).view(samples.shape[2:])


def quick_ess(samples: Tensor) -> Tensor:
    """The effective sample size by means of batches of √draws draws. It needs one pass.

    Where draws are correlated over more than a batch, it is too large, but about as small as the
    number of batches.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> bool(quick_ess(torch.randn(4, 500)) > 1200)
        True
    """
    columns = _columns(samples)
    chains, draws = columns.shape[1:]
    length = math.isqrt(draws)
    means = columns[..., : draws // length * length].unflatten(2, (-1, length)).mean(dim=3)
    spread = means.flatten(1).var(dim=1) * length
    found = chains * draws * columns.flatten(1).var(dim=1) / spread
    return found.view(samples.shape[2:])


def _power(columns: Tensor) -> tuple[Tensor, int]:
    """|Fourier transform|² of each chain, and of how many numbers: enough not to wrap round."""
    size = 2 * columns.shape[-1]
    while max(_factors(size)) > 5:  # transforms of such sizes are fast
        size += 1
    found = torch.view_as_real(torch.fft.rfft(columns - columns.mean(-1, True), n=size))
    return found.square().sum(dim=-1), size


def _factors(number: int) -> list[int]:
    """Its prime factors.

    Example:
        >>> _factors(600)
        [2, 2, 2, 3, 5, 5]
    """
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found or [1]


def autocovariance(columns: Tensor) -> Tensor:
    """Of each chain, by Fourier transforms: [..., draws] to [..., draws]."""
    draws = columns.shape[-1]
    power, size = _power(columns)
    return torch.fft.irfft(power, n=size)[..., :draws] / draws


def _effective(columns: Tensor) -> Tensor:
    """The effective sample size of [columns, chains, draws], by Geyer's monotone sequence."""
    count, chains, draws = columns.shape
    power, length = _power(columns)
    covariance = torch.fft.irfft(power.mean(dim=1), n=length)[:, :draws] / draws
    variance = covariance[:, 0] * draws / (draws - 1.0)
    total = covariance[:, 0].clone()
    if chains > 1:
        total += columns.mean(dim=2).var(dim=1)
    rho = 1.0 - (variance.unsqueeze(1) - covariance) / total.unsqueeze(1)
    rho[:, 0] = 1.0
    pairs = rho[:, : draws // 2 * 2].unflatten(1, (-1, 2))
    sums = pairs.sum(dim=2)
    ends = (sums <= 0.0).cumsum(dim=1) > 0
    ends[:, max(1, (draws - 2) // 2) :] = True
    stop = ends.double().argmax(dim=1)
    sums = torch.where(ends, 0.0, sums.cummin(dim=1).values)
    rest = pairs[torch.arange(count), stop, 0].clamp_min(0.0)
    time = -1.0 + 2.0 * sums.sum(dim=1) + rest
    size = chains * draws
    return size / time.clamp_min(1.0 / math.log10(size))


def ess(samples: Tensor, ranked: bool = True) -> Tensor:
    """The effective number of independent draws (1.68), over all chains.

    Args:
        samples: [chains, draws, ...].
        ranked: of the normal scores of the ranks ("bulk"), which exists for every law; else of
            the values themselves, as the error of their mean needs it.

    Example:
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch...
        >>> bool(ess(torch.randn(4, 500)) > 1500)
        True
    """
    columns = _split(_columns(samples))
    found = _effective(_ranked(columns)[0] if ranked else columns)
    return found.view(samples.shape[2:])


def autocorrelation(samples: Tensor, lags: int = 50) -> Tensor:
    """ρ_s of each chain for the lags s from 0 on: [chains, lags, ...]."""
    columns = _columns(samples)
    covariance = autocovariance(columns)[:, :, :lags]
    rho = covariance / covariance[:, :, :1].clamp_min(torch.finfo(torch.float64).tiny)
    return rho.movedim(0, 2).reshape(samples.shape[0], rho.shape[2], *samples.shape[2:])


def autocorrelation_time(samples: Tensor) -> Tensor:
    """T = 1 + 2 Σ ρ_s in draws (1.67), so that the effective sample size is N/T (1.68).

    The sum ends where the estimates are noise (Geyer).

    Example:
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch...
        >>> bool(autocorrelation_time(torch.randn(4, 1000)) < 1.3)
        True
    """
    return samples.shape[0] * samples.shape[1] / ess(samples, ranked=False)


def mcse(samples: Tensor) -> Tensor:
    """The Monte Carlo standard error of the mean over all chains and draws."""
    deviation = samples.detach().double().flatten(0, 1).std(dim=0)
    return deviation / ess(samples, ranked=False).sqrt()
