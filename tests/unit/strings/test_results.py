"""The sentence in which a path says what it found."""

from dataclasses import replace

import pytest
import torch

from workbench.lenses.paths import find_path
from workbench.report import Status
from workbench.subjects import open_subject


@pytest.fixture(scope="module")
def path():
    subject = open_subject(world="muller_brown")
    return find_path(subject.model, *subject.ends("", ""), nodes=21, generator=torch.Generator())


def test_a_finding_names_regime_barrier_place_and_length(path):
    said = path.finding
    assert said.startswith(f"static: rises {path.barrier} above its start, at ")
    assert f"{path.length} long" in said
    ratio = path.length.value / float(torch.linalg.vector_norm(path.curve.points[-1] - path.curve.points[0]))
    assert f"{ratio:.3g} times the straight line" in said
    top = path.profile.arc[path.profile.energy.argmax()] / path.profile.arc[-1]
    assert f"at {float(top):.2f} of its length" in said


def test_a_finding_that_cannot_be_relied_on_says_so(path):
    vague = replace(path, barrier=replace(path.barrier, error=0.3 * path.barrier.value))
    assert "vague" in vague.finding
    assert "vague" not in path.finding
    stopped = replace(path, report=replace(path.report, status=Status.CANCELLED))
    assert stopped.finding.endswith("not to be relied on: cancelled")


def test_a_path_that_only_falls_has_no_barrier(path):
    assert "never rises" in replace(path, barrier=replace(path.barrier, value=0.0)).finding


def test_a_climb_from_a_minimum_on_the_way_is_told(path):
    deep = replace(path, barrier=replace(path.barrier, value=0.5 * path.barriers[0].height))
    assert "from one of its minima" in deep.finding
