"""The theme: one template, colours that can be told apart in grey and by the colour blind, readable text."""

import itertools

import numpy as np
import pytest

from widgets.theme import BANDS, THEMES, colour_table, template, theme_of

# Brettel-like simplification by Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
CONFUSIONS = {
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return linear(colour) @ [0.2126, 0.7152, 0.0722]


def contrast(first, second):
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", list(THEMES))
@pytest.mark.parametrize("role", ["ink", "muted", "warning", "good"])
def test_text_has_the_contrast_that_guidelines_ask_for(name, role):
    look = THEMES[name]
    assert contrast(getattr(look, role), look.paper) >= 4.5


@pytest.mark.parametrize("name", list(THEMES))
@pytest.mark.parametrize("role", ["path", "straight", "exact", "start"])
def test_lines_stand_out_from_the_paper(name, role):
    look = THEMES[name]
    assert contrast(getattr(look, role), look.paper) >= 3.0


@pytest.mark.parametrize("name", list(THEMES))
@pytest.mark.parametrize("eyes", list(CONFUSIONS))
def test_path_start_and_exact_can_be_told_apart_by_the_colour_blind(name, eyes):
    look = THEMES[name]
    seen = [np.array(CONFUSIONS[eyes]) @ linear(c) for c in (look.path, look.start, look.exact)]
    for first, second in itertools.combinations(seen, 2):
        assert np.linalg.norm(np.clip(first, 0, 1) ** (1 / 2.2) - np.clip(second, 0, 1) ** (1 / 2.2)) > 0.25


@pytest.mark.parametrize("name", list(THEMES))
def test_the_lightness_of_a_field_is_monotone(name):
    light = colour_table(name).astype(float) @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(light)
    assert len(light) == BANDS
    assert (steps > 0).all() or (steps < 0).all()


def test_an_unknown_theme_is_one_sentence():
    with pytest.raises(ValueError, match="one of light, dark"):
        theme_of("sepia")


@pytest.mark.parametrize("name", list(THEMES))
def test_the_template_uses_the_paper_of_its_theme(name):
    assert template(name).layout.paper_bgcolor == THEMES[name].paper
