"""Numbers with their errors, as text."""

import pytest

from workbench.report import Estimate


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (591.649, 252.341, "590 ± 250 nats"),
        (123.828, 26.14, "124 ± 26 nats"),
        (1.587018, 1.3e-4, "1.58702 ± 0.00013 nats"),
        (-0.04, 1.5, "-0.0 ± 1.5 nats"),
        (1.587018, 1e-12, "1.58702 ± 1e-12 nats"),
        (1.587018, None, "1.58702 nats"),
        (float("nan"), 1.0, "nan ± 1 nats"),
        (1.0, float("inf"), "1 ± inf nats"),
    ],
)
def test_an_estimate_shows_no_digits_beyond_its_error(value, error, text):
    assert str(Estimate(value, error, "nats")) == text
