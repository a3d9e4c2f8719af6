"""The embedding as an estimator of scikit-learn, with the verbs that users of CEBRA know.

`ConDA(...).fit(X, *y)` takes any number of continuous variables and at most one of whole numbers, as CEBRA
does; lists of arrays mean sessions. Nothing is pickled: `save` writes the weights as safetensors with the
settings as JSON in the header.

References:
    Buitinck et al., "API design for machine learning software: experiences from the scikit-learn project",
        2013, https://arxiv.org/abs/1309.0238
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        https://doi.org/10.1038/s41586-023-06031-6
"""

import json
import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from workbench.checks import check_count
from workbench.conda.context import Context, join_sessions, make_context
from workbench.conda.encoders import Encoder, Plan, embed_table
from workbench.conda.fitting import Training, measure_loss, train
from workbench.conda.infonce import goodness_of_fit
from workbench.conda.latents import Latents, check_finite, open_latents
from workbench.conda.settings import CondaConfig
from workbench.devices import resolve_device
from workbench.errors import ConvergenceWarning, DataError, SettingError, ShapeError


class ConDA(TransformerMixin, BaseEstimator):
    """Contrastive embedding of latents.

    Args:
        dim: Dimension of the embedding.
        positives: "time", "time_delta", "delta", "discrete", "mixed", "multi", or "auto".
        inner: Sampler inside each session, for "multi".
        offset: Steps of time positives and increments; a tuple mixes several.
        delta: Spread of Gaussian positives.
        prior: "empirical" or "balanced" references.
        similarity: "euclidean" or "cosine".
        temperature: tau.
        learn_temperature: Whether tau is learnt.
        least_temperature: Floor of a learnt tau.
        architecture: "mlp" or "conv" (10 frames, never across an edge).
        hidden: Width of the hidden layers.
        layers: Hidden layers of the perceptron.
        scaling: "columns", "pca", "white", "none" or "auto".
        components: How many components "pca" and "white" keep; None chooses by the number of frames.
        iterations: Optimiser steps.
        batch: References, and negatives, a step.
        rate: Peak learning rate.
        restarts: Copies that start side by side; the best by held-out loss stays.
        held_out: Share of the frames that choose among them.
        seed: Seed of all draws.
        device: Where it is trained.

    Attributes:
        encoder_: The trained encoder.
        embedding_: The embedded training frames, shape (count, dim).
        loss_: Held-out loss in nats.
        control_loss_: The same with shuffled context: what chance reaches.
        goodness_of_fit_: Bits of `loss_`.
        losses_: Training loss of each copy at each step, shape (iterations, restarts).
        control_losses_: That of the control.
        n_features_in_: Entries of one frame.
    """

    def __init__(
        self,
        dim: int = 3,
        *,
        positives: str = "auto",
        inner: str = "auto",
        offset: int | tuple[int, ...] = 1,
        delta: float = 0.1,
        prior: str = "empirical",
        similarity: str = "euclidean",
        temperature: float = 1.0,
        learn_temperature: bool = False,
        least_temperature: float = 0.1,
        architecture: str = "mlp",
        hidden: int = 64,
        layers: int = 3,
        scaling: str = "auto",
        components: int | None = None,
        iterations: int = 1000,
        batch: int = 512,
        rate: float = 1e-3,
        restarts: int = 4,
        held_out: float = 0.1,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.dim = dim
        self.positives = positives
        self.inner = inner
        self.offset = offset
        self.delta = delta
        self.prior = prior
        self.similarity = similarity
        self.temperature = temperature
        self.learn_temperature = learn_temperature
        self.least_temperature = least_temperature
        self.architecture = architecture
        self.hidden = hidden
        self.layers = layers
        self.scaling = scaling
        self.components = components
        self.iterations = iterations
        self.batch = batch
        self.rate = rate
        self.restarts = restarts
        self.held_out = held_out
        self.seed = seed
        self.device = device

    def fit(self, X: Any, *y: Any, groups: Any = None, times: Any = None) -> "ConDA":
        """Train.

        Args:
            X: Frames, shape (count, features), a path of such a table, or a list of sessions.
            y: Continuous variables (floating point) and at most one of labels (whole numbers), one entry a
                frame; lists where X is one.
            groups: Trajectory of each frame.
            times: Time of each frame.

        Returns:
            The estimator itself; a `ConvergenceWarning` if nothing was learnt.

        Raises:
            SettingError: If a setting is out of range or does not fit the data.
            ShapeError: If lengths differ.
            DataError: If frames are not finite.
        """
        return self._train(X, y, groups, times, None)

    def partial_fit(self, X: Any, *y: Any, groups: Any = None, times: Any = None) -> "ConDA":
        """Train on from where the last fit ended, with its scaling; the first call is a fit."""
        start = self.encoder_ if hasattr(self, "encoder_") else None
        return self._train(X, y, groups, times, start)

    def transform(self, X: Any, *, groups: Any = None, times: Any = None) -> np.ndarray:
        """Embed frames.

        Args:
            X: As for `fit`.
            groups: Trajectories, whose edges the convolution respects.
            times: Times.

        Returns:
            Points, shape (count, dim).
        """
        check_is_fitted(self, "encoder_")
        table, context = self._read(X, (), groups, times)
        return embed_table(self.encoder_, table, context).numpy()

    def score(self, X: Any, *y: Any, groups: Any = None, times: Any = None) -> float:
        """Goodness of fit on frames, in bits: 0 is chance, larger is better.

        Args:
            X: As for `fit`.
            y: As for `fit`.
            groups: Trajectories.
            times: Times.

        Returns:
            (log N - loss) / log 2.
        """
        return goodness_of_fit(self.infonce_loss(X, *y, groups=groups, times=times), self.batch)

    def infonce_loss(self, X: Any, *y: Any, groups: Any = None, times: Any = None) -> float:
        """The loss on frames, in nats; arguments as for `score`."""
        check_is_fitted(self, "encoder_")
        table, context = self._read(X, y, groups, times)
        generator = torch.Generator().manual_seed(self.seed)
        return measure_loss(self.encoder_, table, context, self._config(), generator=generator)

    def save(self, path: str | Path) -> Path:
        """Write the fitted estimator: weights as safetensors, settings as JSON in the header.

        Args:
            path: Where to; ".safetensors" is appended if it is missing.

        Returns:
            The path written.
        """
        check_is_fitted(self, "encoder_")
        path = Path(path)
        path = path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")
        encoder = self.encoder_
        tensors = {f"weight{i}": w.contiguous() for i, w in enumerate(encoder.weights)}
        tensors |= {"center": encoder.center.contiguous(), "basis": encoder.basis.contiguous()}
        tensors["losses"] = self.losses_.contiguous()
        tensors["control_losses"] = self.control_losses_.contiguous()
        header = {
            "settings": self.get_params(),
            "plan": asdict(encoder.plan),
            "temperature": encoder.temperature,
            "loss": self.loss_,
            "control_loss": self.control_loss_,
        }
        save_file(tensors, str(path), metadata={"conda": json.dumps(header)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "ConDA":
        """Read an estimator that `save` wrote; `embedding_` is left out, as the frames are.

        Raises:
            DataError: If the file is missing or another kind of file.
        """
        try:
            with safe_open(str(path), framework="pt") as file:
                header = json.loads((file.metadata() or {})["conda"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            settings = dict(header["settings"])
            if isinstance(settings["offset"], list):
                settings["offset"] = tuple(settings["offset"])
            made = cls(**settings)
            count = sum(name.startswith("weight") for name in tensors)
            made.encoder_ = Encoder(
                Plan(**header["plan"]),
                tuple(tensors[f"weight{i}"] for i in range(count)),
                tensors["center"],
                tensors["basis"],
                float(header["temperature"]),
            )
            made.loss_, made.control_loss_ = float(header["loss"]), float(header["control_loss"])
            made.losses_, made.control_losses_ = tensors["losses"], tensors["control_losses"]
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}, which holds no estimator ({error})", "a file that save wrote"
            ) from error
        made.goodness_of_fit_ = goodness_of_fit(made.loss_, made.batch)
        made.n_features_in_ = made.encoder_.dim
        return made

    def _config(self) -> CondaConfig:
        settings = {name: getattr(self, name) for name in asdict(CondaConfig())}
        config = CondaConfig(**settings)
        config.check()
        return config

    def _read(self, X: Any, y: tuple[Any, ...], groups: Any, times: Any) -> tuple[Latents, Context]:
        """Frames and context, sessions joined."""
        if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
            if groups is not None:
                raise SettingError("sessions and groups", "one of the two", "groups=None")
            sizes = [len(session) for session in X]
            X, groups = join_sessions(X)
            y = tuple(_joined(index, sizes) for index in y)
            times = (
                _joined(times, sizes) if times is not None else np.concatenate([np.arange(s) for s in sizes])
            )
        elif isinstance(X, list | tuple):
            X = np.asarray(X, dtype=np.float64)
        table = open_latents(X)
        if hasattr(self, "encoder_") and table.dim != self.encoder_.dim and not y:
            raise ShapeError(f"frames of {table.dim} features", f"{self.encoder_.dim}, as in the fit")
        check_finite(table)
        return table, make_context(len(table), *y, groups=groups, times=times)

    def _train(self, X: Any, y: tuple[Any, ...], groups: Any, times: Any, start: Encoder | None) -> "ConDA":
        config = self._config()
        check_count("seed", self.seed, least=0)
        table, context = self._read(X, y, groups, times)
        wide = isinstance(table.array, Tensor) and table.array.dtype == torch.float64
        trained: Training = train(
            table,
            context,
            config,
            generator=torch.Generator().manual_seed(self.seed),
            dtype=torch.float64 if wide else torch.float32,
            device=resolve_device(self.device),
            start=start,
        )
        self.encoder_ = trained.encoder
        self.loss_, self.control_loss_ = trained.loss, trained.control_loss
        self.goodness_of_fit_ = trained.bits
        self.losses_, self.control_losses_ = trained.losses, trained.control_losses
        self.n_features_in_ = table.dim
        self.embedding_ = embed_table(trained.encoder, table, context).numpy()
        if not trained.learnt:
            best = min(math.log(config.batch), trained.control_loss)
            warnings.warn(
                f"nothing was learnt: the held-out loss is {trained.loss:.3f} nats, chance {best:.3f}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


def _joined(index: Any, sizes: list[int]) -> np.ndarray:
    """One array from a list with one entry a session."""
    if not isinstance(index, list | tuple) or [len(part) for part in index] != sizes:
        raise ShapeError("an index that is no list of sessions", f"a list of arrays of lengths {sizes}")
    return np.concatenate([np.asarray(part) for part in index])
