"""What every lens owes: same seed same result, batch or chunks change nothing, saving, a report, an oracle.

Run over `LENSES`. A new lens gets these tests by giving its calls in `CASES`; without them it fails.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.oracles import conda as conda_oracle
from tests.oracles import strings as strings_oracle
from workbench.anisotropy.closed_forms import transformer_geometry
from workbench.anisotropy.levels import ddpm_levels
from workbench.conda.consistency import linear_r2
from workbench.lenses import LENSES, Lens
from workbench.lenses.anisotropy import directions_of
from workbench.metrics import half_plane
from workbench.report import Provenance, SolveReport, Status
from workbench.storage import load_result, save_result
from workbench.worlds import load_world


@dataclass(frozen=True)
class Case:
    """How to call a lens quickly.

    Attributes:
        call: seed -> result of a small problem that draws random numbers where the lens does.
        whole: The same problem at once.
        parts: The same in parts (chunks of a batch, or one by one).
        numbers: Result -> the tensor that whole and parts must share.
        oracle: Result of `whole` -> (numbers found, numbers known, tolerance).
        draws: Whether another seed shows in the result.
    """

    call: Callable[[int], Any]
    whole: Callable[[], Any]
    parts: Callable[[], Any]
    numbers: Callable[[Any], Tensor]
    oracle: Callable[[Any], tuple[Tensor, Tensor, float]]
    draws: bool = True


def _paths() -> Case:
    find = _lens("paths").verb
    world, wells = load_world("muller_brown"), load_world("two_wells")

    def static(**options):
        return find(world, world.facts.start, world.facts.end, nodes=21, measure_share=False, **options)

    def principal(seed):
        return find(
            wells,
            wells.facts.start,
            wells.facts.end,
            regime="principal",
            nodes=5,
            steps=5,
            tol=1.0,
            walkers=3,
            most_substeps=2,
            measure_share=False,
            generator=torch.Generator().manual_seed(seed),
        )

    return Case(
        call=principal,
        whole=static,
        parts=lambda: static(memory_budget=6000),
        numbers=lambda found: found.curve.points,
        oracle=lambda found: (
            torch.tensor(found.barrier.value),
            torch.tensor(strings_oracle.MULLER_BROWN["barrier"]),
            1e-3,
        ),
    )


def _anisotropy() -> Case:
    find = _lens("anisotropy").verb

    def fresh(**options):
        return find("dit8-2", networks=4, seed=0, dtype=torch.float64, **options)

    return Case(
        call=lambda seed: find("unet8-time", networks=4, tol=1.0, seed=seed),
        whole=fresh,
        parts=lambda: fresh(chunk=1),
        numbers=lambda found: found.spectrum.values,
        oracle=lambda found: (
            found.spectrum.values,
            directions_of(transformer_geometry((1, 8, 8), 2, 32, ddpm_levels().mean_weight)).spectrum.values,
            1e-8,
        ),
    )


def _fisher() -> Case:
    find = _lens("fisher").verb
    start, end = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])

    def run(seed=0, **options):
        generator = torch.Generator().manual_seed(seed)
        return find(half_plane(), start, end, nodes=9, starts=2, generator=generator, **options)

    return Case(
        call=run,
        whole=run,
        parts=lambda: find(half_plane(), start, end, nodes=9, starts=1),
        numbers=lambda found: torch.tensor(found.distance.value),
        oracle=lambda found: (
            torch.tensor(found.distance.value),
            torch.tensor(math.acosh(1 + float((end - start).square().sum()) / (2 * 1.0 * 2.0))),
            1e-5,
        ),
        draws=False,  # its bends all end on the same geodesic
    )


def _conda() -> Case:
    fit = _lens("conda").verb
    latents, angle = conda_oracle.ring(count=240, dim=6, seed=0)

    def run(seed=0, **options):
        generator = torch.Generator().manual_seed(seed)
        return fit(
            latents, dim=2, iterations=80, batch=64, restarts=2, rate=5e-3, generator=generator, **options
        )

    return Case(
        call=run,
        whole=run,
        parts=lambda: run(chunk=7),
        numbers=lambda found: found.points,
        oracle=lambda found: (
            torch.tensor(linear_r2(found.points, torch.stack([angle.cos(), angle.sin()], dim=1))),
            torch.tensor(1.0),
            0.02,
        ),
    )


CASES = {"conda": _conda, "paths": _paths, "anisotropy": _anisotropy, "fisher": _fisher}


def _lens(name: str) -> Lens:
    return next(lens for lens in LENSES if lens.name == name)


@pytest.fixture(params=[lens.name for lens in LENSES])
def lens(request):
    if request.param not in CASES:
        pytest.fail(f"the lens {request.param!r} has no case in CASES: give its calls and its oracle")
    return _lens(request.param), CASES[request.param]()


def _tensors(value) -> list[Tensor]:
    """Every tensor in a result, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in _tensors(item)]
    if dataclasses.is_dataclass(value):
        return [t for field in dataclasses.fields(value) for t in _tensors(getattr(value, field.name))]
    return []


def test_entry_is_complete(lens):
    entry, _ = lens
    assert entry.question.endswith("?")
    assert entry.verb.__doc__
    assert entry.result.__doc__
    assert entry.result.__dataclass_params__.frozen
    assert entry.verb.__name__.startswith(("find_", "fit_", "measure_"))


@pytest.mark.filterwarnings("ignore::workbench.errors.ConvergenceWarning")
def test_same_seed_same_result(lens):
    _, case = lens
    first, again, other = case.call(1), case.call(1), case.call(2)
    for a, b in zip(_tensors(first), _tensors(again), strict=True):
        assert torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    assert not case.draws or any(
        a.shape != b.shape or not torch.equal(a, b)
        for a, b in zip(_tensors(first), _tensors(other), strict=True)
    )


def test_parts_equal_whole_and_oracle_is_met(lens):
    entry, case = lens
    whole = case.whole()
    assert isinstance(whole, entry.result)
    assert_close(case.numbers(case.parts()), case.numbers(whole), rtol=0, atol=1e-9)
    found, known, tolerance = case.oracle(whole)
    assert_close(found, known, rtol=tolerance, atol=tolerance)


def test_report_and_provenance_are_present(lens):
    _, case = lens
    result = case.whole()
    assert isinstance(result.report, SolveReport)
    assert result.report.status is Status.CONVERGED
    assert result.report.model_calls >= 0
    assert isinstance(result.provenance, Provenance)
    assert {"python", "torch", "workbench"} <= set(result.provenance.versions)
    assert result.provenance.sources
    assert not any(tensor.requires_grad for tensor in _tensors(result))


def test_saved_result_comes_back(lens, tmp_path):
    entry, case = lens
    result = case.whole()
    back = load_result(save_result(result, tmp_path / "result.npz"), entry.result)
    for a, b in zip(_tensors(result), _tensors(back), strict=True):
        assert torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    assert back.report == result.report
