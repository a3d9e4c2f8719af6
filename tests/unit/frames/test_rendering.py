"""What a curve renders to, what the condition adds, and hidden frames compared frame with frame."""

import threading

import pytest
import torch

from workbench.conda.consistency import linear_r2
from workbench.conda.context import make_context
from workbench.conda.gaps import hide_gaps, measure_gaps
from workbench.errors import SettingError, ShapeError
from workbench.frames.rendering import condition_along, render_gaps, render_path
from workbench.inversions import decode, encode, given_each
from workbench.lenses.conda import fit_conda, trace
from workbench.models import Frame
from workbench.report import Status
from workbench.worlds import GaussianMixture
from workbench.zoo import load_model


def test_film_of_untouched_latents_is_the_frames(generator: torch.Generator):
    model = load_model("moons", dtype=torch.float64)
    x = torch.tensor([[-0.9, -0.15], [-0.3, 0.45], [0.3, -0.45], [0.9, 0.15]])
    conditions = [0, 0, 1, 1]
    latent = encode(given_each(model, conditions), x, depth=5.0, steps=20)
    found = render_path(model, latent, latent.joined(), conditions)
    torch.testing.assert_close(found.following, x, rtol=0, atol=1e-8)
    torch.testing.assert_close(found.held[:2], x[:2], rtol=0, atol=1e-8)
    assert found.conditioned > 0.05
    assert found.report.model_calls == 2 * decode(given_each(model, conditions), latent).report.model_calls
    same = render_path(model, latent, latent.joined(), [0] * 4)
    assert same.conditioned == 0.0
    assert same.moved == 1.0
    assert "the two differ by 0 %" in str(same)


def test_a_film_that_was_cancelled_after_the_first_says_so():
    """The second film stops at once: the first one alone must not answer for both."""
    model = load_model("moons", dtype=torch.float64)
    latent = encode(given_each(model, [0, 1]), torch.zeros(2, 2), depth=5.0, steps=4)
    stop = threading.Event()

    def progress(share: float, text: str) -> None:
        if share >= 0.5:
            stop.set()

    found = render_path(model, latent, latent.joined(), [0, 1], progress=progress, cancel=stop)
    assert found.report.status is Status.CANCELLED


def test_conditions_must_fit_the_states():
    model = load_model("moons", dtype=torch.float64)
    latent = encode(given_each(model, [0, 1]), torch.zeros(2, 2), depth=5.0, steps=4)
    with pytest.raises(
        ShapeError, match=r"^got 3 conditions for states of shape \(2, 4\); expected one a state"
    ):
        render_path(model, latent, latent.joined(), [0, 1, 0])


def test_condition_that_follows_is_that_of_the_neighbours():
    conditions = torch.tensor([0, 2, 4])
    neighbours, weights = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0.5, 0.5], [-0.5, 1.5]])
    assert condition_along(conditions, neighbours, weights) == [1.0, 4.0]  # kept inside the data


def test_hidden_frames_are_scored_in_their_own_space():
    """Frames that turn on a circle, in a world whose flow keeps angles: errors of the map pass on."""
    steps = torch.arange(160, dtype=torch.float64)
    x = torch.stack([(steps * 2 * torch.pi / 23.7).cos(), (steps * 2 * torch.pi / 23.7).sin()], 1)
    world = GaussianMixture("disc", torch.ones(1), torch.zeros(1, 2), 0.5 * torch.eye(2)[None])
    context = make_context(160)
    hidden = hide_gaps(context, gap=6, every=40)
    latent = encode(world, x, depth=3.0, steps=12)
    score = measure_gaps(latent.joined(), context, hidden, lambda z: z[:, :2])
    found = render_gaps(world, latent, score, x)
    assert found.errors.keys() == score.errors.keys()
    assert found.errors["spline_c"] < 0.01 < 0.2 < found.errors["lerp_z"]
    for name, error in found.errors.items():  # a linear flow of equal factors keeps relative errors
        assert error == pytest.approx(score.errors[name], rel=0.05)
    truth = x[found.rows]
    wrong = (found.frames["lerp_z"] - truth).square().sum() / (truth - x[~hidden].mean(0)).square().sum()
    assert found.errors["lerp_z"] == pytest.approx(float(wrong.sqrt()))
    assert len(found.per_gap["lerp_z"]) == int(score.gaps.max()) + 1
    with pytest.raises(ShapeError, match=r"^got 3 frames of 160 latents"):
        render_gaps(world, latent, score, x[:3])
    with pytest.raises(SettingError, match=r"^got method 'lerp'; expected some of lerp_z"):
        render_gaps(world, latent, score, x, methods=["lerp"])


class Empirical:
    """The exact denoiser of a finite set of frames, each widened by a small normal law."""

    def __init__(self, frames: torch.Tensor, width: float) -> None:
        self.frames, self.width = frames, width
        self.frame = Frame("frames", (frames.shape[1],), 0.02, 15.0)

    def denoise(self, y: torch.Tensor, sigma) -> torch.Tensor:
        total = self.width**2 + torch.as_tensor(sigma).square()
        distance = torch.cdist(y, self.frames).square()
        near = torch.softmax(-0.5 * distance / total, dim=1) @ self.frames
        return near + self.width**2 / total * (y - near)


@pytest.mark.slow
def test_a_line_in_the_map_goes_straight_where_a_line_of_latents_does_not():
    """A blob at two known coordinates: frames between two positions, rendered from the map and without it."""
    draw = torch.Generator().manual_seed(0)
    where = 0.15 + 0.7 * torch.rand(700, 2, generator=draw)
    grid = (torch.arange(16) + 0.5) / 16

    def blobs(centre: torch.Tensor) -> torch.Tensor:
        dx, dy = (grid - centre[:, i, None] for i in (0, 1))
        return torch.exp(-0.5 * (dx[:, None].square() + dy[:, :, None].square()) / 0.1**2).flatten(1)

    def found_at(pictures: torch.Tensor) -> torch.Tensor:
        mass = (pictures * spread + mean).reshape(-1, 16, 16).clamp_min(0) ** 2
        mass = mass / mass.sum((1, 2), keepdim=True)
        return torch.stack([(mass.sum(1) * grid).sum(1), (mass.sum(2) * grid).sum(1)], dim=1)

    pictures = blobs(where)
    mean, spread = pictures.mean(0), pictures.std()
    x = (pictures - mean) / spread
    model = Empirical(x, 0.1)
    latent = encode(model, x, solver="heun", steps=30)
    fit = fit_conda(
        latent.points, where, positives="delta", delta=0.1, dim=2, iterations=800, batch=256, restarts=2,
        generator=draw,
    )  # fmt: skip
    assert linear_r2(fit.points, where) > 0.97
    corner, far = (int((where - goal).square().sum(1).argmin()) for goal in (0.2, 0.8))
    path = trace(fit, [corner, far], kind="line", steps=9)
    share = torch.linspace(0, 1, 9)[1:-1, None]
    target = torch.lerp(where[corner], where[far], share)
    errors = [
        (found_at(decode(model, latent.with_joined(z[1:-1])).points) - target).norm(dim=1).mean()
        for z in (path.latents, path.lerp_z)
    ]
    assert float(errors[0]) < 0.05
    assert float(errors[1]) > 3 * float(errors[0])
