"""Every seeded mistake is named, in four families and on a trained network; what is right is no fault."""

from dataclasses import replace

import pytest
import torch

from tests.unit.doctor.families import (
    FAMILIES,
    OTHER,
    own_prediction,
    right,
    wrong_clock,
    wrong_direction,
    wrong_prediction,
)
from workbench.data import draw_toy
from workbench.doctor.verdict import judge_readings
from workbench.worlds import load_world
from workbench.zoo import load_model

COUNT = 96


@pytest.fixture(scope="module")
def world():
    return load_world("v_mixture")


@pytest.fixture(scope="module")
def ring():
    return load_model("ring", dtype=torch.float64)


def points_of(model):
    generator = torch.Generator().manual_seed(5)
    if model.frame.name == "ring":
        return draw_toy("ring", COUNT, generator=generator, dtype=torch.float64)[0]
    return model.sample(COUNT, generator=generator)


def faults(model, data=None):
    """Name to finding of every fault."""
    like = torch.empty(0, dtype=torch.float64)
    found = judge_readings(model, data, count=COUNT, like=like, generator=torch.Generator().manual_seed(0))
    return {finding.name: finding for finding in found.findings if finding.verdict == "fault"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("with_data", [False, True])
def test_a_right_declaration_is_no_fault(world, family, with_data):
    assert faults(right(world, family), points_of(world) if with_data else None) == {}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("with_data", [False, True])
def test_a_trained_network_declared_rightly_is_no_fault(ring, family, with_data):
    assert faults(right(ring, family), points_of(ring) if with_data else None) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_backward_clock_is_named(world, family):
    assert set(faults(wrong_clock(world, family))) - {"samples"} == {"clock"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_backward_clock_of_a_trained_network_is_named(ring, family):
    assert set(faults(wrong_clock(ring, family), points_of(ring))) - {"samples"} == {"clock"}


@pytest.mark.parametrize("with_data", [False, True])
def test_noise_at_the_wrong_end_of_a_flow_is_a_backward_clock(world, with_data):
    found = faults(wrong_direction(world), points_of(world) if with_data else None)
    assert set(found) - {"samples"} == {"clock"}
    assert "schedule=RECTIFIED" in found["clock"].remedy


@pytest.mark.parametrize(
    ("family", "said"), [(family, said) for family in FAMILIES for said in OTHER[family]]
)
def test_a_wrong_prediction_is_named_with_the_right_one(world, family, said):
    found = faults(wrong_prediction(world, family, said))
    assert set(found) - {"samples"} == {"prediction"}
    assert found["prediction"].remedy == f"prediction={own_prediction(family)!r}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_prediction_of_a_trained_network_is_named(ring, family):
    found = faults(wrong_prediction(ring, family, OTHER[family][0]), points_of(ring))
    assert found["prediction"].remedy == f"prediction={own_prediction(family)!r}"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("factor", [5.5, 0.18215])
def test_a_missing_scale_is_named_with_its_factor(world, family, factor):
    found = faults(right(world, family), points_of(world) / factor)
    assert set(found) - {"samples"} == {"scale"}
    assert float(found["scale"].remedy.split()[2]) == pytest.approx(factor, rel=0.15)


def test_a_missing_scale_of_a_trained_network_is_named(ring):
    found = faults(right(ring, "edm"), points_of(ring) * 5.5)
    assert set(found) - {"samples"} == {"scale"}


def test_a_missing_shift_is_named(world):
    found = faults(right(world, "vp_eps"), points_of(world) / 5.5 + 2.0)
    assert "after a shift" in found["scale"].sentence


def test_a_network_of_noise_is_a_fault_without_a_name(world):
    def noise(x, t, condition):
        return torch.sin(37.0 * x) * 5.0

    found = faults(replace(right(world, "vp_eps"), module=noise), points_of(world))
    assert set(found) - {"samples"} == {"prediction"}
    assert "no posterior mean" in found["prediction"].sentence


def test_a_velocity_taken_for_v_is_named_beside_data_and_cannot_be_without(ring):
    said = wrong_prediction(ring, "v", "velocity")
    found = faults(said, points_of(ring))
    assert set(found) - {"samples"} == {"prediction"}
    assert found["prediction"].remedy == "prediction='v'"
    like = torch.empty(0, dtype=torch.float64)
    right_one = right(ring, "v")
    alone = judge_readings(right_one, None, count=24, like=like, generator=torch.Generator().manual_seed(0))
    assert "velocity, a factor of pi/2 apart" in str(alone.findings[0])
