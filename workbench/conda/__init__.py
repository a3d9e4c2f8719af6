"""Contrastive trajectories through latents: what the lens `conda` is made of.

Frames have latents z, many-dimensional and faithful; a contrastive embedding c = h(z) of few dimensions
orders them by their times or labels; curves are drawn among the c, and a neighbourhood-preserving lift brings
them back to the z, which the untouched generative model renders.

`context` says which frames follow which; `positives` draws pairs that belong together; `infonce` is the loss;
`settings`, `scaling`, `encoders`, `stack` and `fitting` train; `estimator` offers it in the conventions of
scikit-learn; `topology` and `consistency` judge the map; `trajectories` and `curves` draw in it; `latents`
and `lifts` bring them back; `gaps` scores them on frames that nothing has seen; `picking` finds what a hand
points at.

References:
    Contrastive Diffusion Alignment: Learning Structured Latents for Controllable Generation (Sandilya et al.,
    2025), https://arxiv.org/abs/2510.14190
    Learnable latent embeddings for joint behavioural and neural analysis (Schneider, Lee, Mathis, 2023),
    https://doi.org/10.1038/s41586-023-06031-6
"""
