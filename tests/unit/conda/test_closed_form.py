"""The loss meets its closed form in every cell."""

import torch

from tests.oracles import conda as oracle
from workbench.conda.closed_form import CELLS, _von_mises, measure_closed_form


def test_every_cell_is_within_two_hundredths_of_a_nat():
    errors = measure_closed_form(generator=torch.Generator().manual_seed(0))
    assert errors.shape == (len(CELLS),)
    assert {kappa for kappa, _ in CELLS} == {2.0, 10.0}
    assert {negatives for _, negatives in CELLS} == {128, 512, 2048}
    assert float(errors.abs().max()) < 0.02


def test_positives_have_their_concentration():
    angle = _von_mises(10.0, 200_000, torch.empty(0), torch.Generator().manual_seed(0))
    reference, positive = oracle.von_mises_pairs(10.0, 200_000, seed=0)
    expected = torch.as_tensor((reference * positive).sum(1)).mean()
    torch.testing.assert_close(angle.cos().mean(), expected.to(angle), rtol=0, atol=1e-3)
