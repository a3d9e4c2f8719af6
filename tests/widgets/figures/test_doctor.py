"""The doctor's tables as data: every finding, every lens, faults in the colour of a warning."""

import dataclasses

import pytest

from widgets.figures.doctor import SIGNS, costs_figure, findings_figure, lacking_figure, lenses_figure
from widgets.theme import theme_of
from workbench.doctor import Costs, Diagnosis, Finding, LensRow
from workbench.report import Estimate, Provenance

MS = Estimate(2.0, 0.1, "ms")
FOUND = Diagnosis(
    model="mine",
    kind="score model on data of shape 2",
    findings=(
        Finding("shapes", "ok", "points of shape (2,)"),
        Finding("clock", "fault", "it runs backwards", "schedule=LINEAR"),
        Finding("scale", "not checked", "needs data"),
    ),
    costs=Costs(MS, MS, None, MS, None, 0.5, 1.5, 16),
    lenses=(
        LensRow("paths", "mep, 17 nodes", True, "", 3027, 6.05),
        LensRow("fisher", "denoiser pullback", False, "forward derivatives", 0, None),
    ),
    seconds=1.0,
    provenance=Provenance(dtype="float32"),
)


def test_findings_are_told_with_their_signs_and_remedies():
    drawing = findings_figure(FOUND)
    signs, names, said = drawing.data[0].cells.values
    assert list(signs) == [SIGNS[one.verdict] for one in FOUND.findings]
    assert list(names) == ["shapes", "clock", "scale"]
    assert said[1] == "it runs backwards; try schedule=LINEAR"
    assert drawing.layout.title.text == "mine is not sound: clock"


def test_a_fault_has_the_colour_of_a_warning():
    colours = findings_figure(FOUND, theme="dark").data[0].cells.font.color[0]
    look = theme_of("dark")
    assert list(colours) == [look.ink, look.warning, look.ink]


def test_a_sound_model_is_called_so():
    sound = dataclasses.replace(FOUND, findings=FOUND.findings[:1])
    assert findings_figure(sound).layout.title.text == "mine is sound"


def test_lenses_are_told_with_calls_and_time_or_what_they_lack():
    lens, _, calls, took, said = lenses_figure(FOUND).data[0].cells.values
    assert list(lens) == ["paths", "fisher"]
    assert (calls[0], took[0], said[0]) == ("3,027", "6.0 s", "works")
    assert (calls[1], took[1], said[1]) == ("", "", "lacks forward derivatives")


@pytest.mark.parametrize(("costs", "rows"), [(FOUND.costs, 6), (None, 0)])
def test_costs_are_told_where_there_are_any(costs, rows):
    names = costs_figure(dataclasses.replace(FOUND, costs=costs)).data[0].cells.values[0]
    assert len(names) == rows


def test_a_lens_without_a_picture_says_what_is_lacking():
    drawing = lacking_figure(FOUND, "fisher")
    said = " ".join(note.text for note in drawing.layout.annotations)
    assert "fisher of mine: lacks forward derivatives." in said.replace("<br>", " ")
