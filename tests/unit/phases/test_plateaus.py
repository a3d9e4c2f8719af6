"""What plateaus say of themselves: whether phases that were looked for came to rest, where they come from."""

import torch
from torch.testing import assert_close

from workbench.phases import measure_plateaus
from workbench.report import Status


def _stairs():
    heights = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    labels = torch.arange(3).repeat_interleave(12).reshape(6, 6)
    return heights[labels], labels


def test_given_phases_have_a_report_without_a_residual():
    gradient, labels = _stairs()
    found = measure_plateaus(gradient, labels=labels)
    assert found.report.status is Status.CONVERGED
    assert found.report.residual is None
    assert found.report.message == "3 phases as given"
    assert found.provenance.settings["given"] is True


def test_found_phases_are_at_rest_and_name_their_seed(generator):
    gradient, _ = _stairs()
    found = measure_plateaus(gradient, count=3, generator=generator)
    assert found.report.status is Status.CONVERGED
    assert found.report.residual == 0.0
    assert found.provenance.seed == generator.initial_seed()


def test_the_search_that_has_not_ended_says_how_many_points_are_nearer_to_another_phase(monkeypatch):
    """Two of 36 points are in a phase that is not theirs."""
    gradient, labels = _stairs()
    spoilt = labels.clone()
    spoilt[0, :2] = 2
    monkeypatch.setattr("workbench.phases.plateaus.label_phases", lambda *_, **__: spoilt)
    found = measure_plateaus(gradient, count=3)
    assert found.report.status is Status.MAX_ITERATIONS
    assert_close(found.report.residual, 2 / 36)
