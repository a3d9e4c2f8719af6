"""Judges: small classifiers, trained on real images only, that say what a generated image shows.

A judge has two uses: the class it gives to a conditional sample is compared with the class that was asked
for, and its 64 features are the space of the Fréchet distance between samples and held-out images. Its own
accuracy on held-out images stands in its card, because no sample can be judged better than a real image.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.integrators import Progress
from workbench.types import Points


class Judge(nn.Module):
    """A convolutional classifier of square grey images given as flat points.

    Args:
        side: Rows and columns of an image; a multiple of four.
        classes: Number of classes.
        channels: Width of the first convolution; the second has twice as many.
        features: Width of the last hidden layer, the space of the Fréchet distance.
        dropout: Share of features silenced while training.
    """

    def __init__(
        self, side: int, classes: int = 10, channels: int = 24, features: int = 64, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.side = side
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.hidden = nn.Linear(2 * channels * (side // 4) ** 2, features)
        self.dropout = nn.Dropout(dropout)
        self.leave = nn.Linear(features, classes)

    def features(self, x: Points) -> Tensor:
        """The last hidden layer for flat images x (count, dim), shape (count, features)."""
        h = F.max_pool2d(F.relu(self.first(x.reshape(-1, 1, self.side, self.side))), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        return F.relu(self.hidden(h.flatten(1)))

    def forward(self, x: Points) -> Tensor:
        """Class scores (logits) for flat images x (count, dim), shape (count, classes)."""
        return self.leave(self.dropout(self.features(x)))


def fit_judge(
    judge: Judge,
    data: Points,
    labels: Tensor,
    *,
    epochs: int,
    generator: torch.Generator,
    batch: int = 128,
    rate: float = 2e-3,
    shift: int = 1,
    progress: Progress | None = None,
) -> Judge:
    """Train a judge on real images, each batch shifted by a random offset, with a cosine rate.

    Args:
        judge: The network; trained in place.
        data: Flat images in [-1, 1], shape (count, dim).
        labels: Class indices, shape (count,).
        epochs: Passes over the data.
        generator: Source of the order and the shifts. Dropout draws from torch's global generator.
        batch: Images a step.
        rate: Peak rate of AdamW.
        shift: Largest offset along an axis, in pixels.
        progress: Called with the fraction done and a sentence.

    Returns:
        The judge, in evaluation mode.
    """
    judge.train()
    optimiser = torch.optim.AdamW(judge.parameters(), lr=rate, weight_decay=1e-2)
    steps, done = epochs * (len(data) // batch), 0
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=generator)
        total = torch.zeros((), device=data.device)  # read once an epoch
        for rows in order[: len(data) // batch * batch].split(batch):
            for group in optimiser.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * done / steps)) * min(1.0, (done + 1) / 100)
            images = shift_images(data[rows].reshape(-1, judge.side, judge.side), shift, generator)
            loss = F.cross_entropy(judge(images.flatten(1)), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total, done = total + loss.detach(), done + 1
        if progress is not None:
            progress(
                (epoch + 1) / epochs,
                f"epoch {epoch + 1} of {epochs}, loss {float(total) * batch / len(data):.4f}",
            )
    return judge.eval()


def shift_images(images: Tensor, shift: int, generator: torch.Generator, *, black: float = -1.0) -> Tensor:
    """Images (n, rows, columns) moved together by up to `shift` pixels along each axis, black coming in."""
    rows, columns = torch.randint(-shift, shift + 1, (2,), generator=generator).tolist()
    padded = F.pad(images, (shift, shift, shift, shift), value=black)
    side = images.shape[-1]
    return padded[:, shift + rows : shift + rows + side, shift + columns : shift + columns + side]
