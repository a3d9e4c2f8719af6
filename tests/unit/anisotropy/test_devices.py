"""Vectors that live elsewhere than the networks: a tagged tensor stands in for one of an accelerator.

It holds its numbers on the host, but refuses to meet a host's tensor until it has been moved.
"""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._pytree import tree_flatten, tree_map

from workbench.anisotropy.alignment import align, alignment_of
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.ensemble import make_ensemble
from workbench.anisotropy.geometry import average_geometry
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.probes import ZERO
from workbench.anisotropy.products import SeededGeometry
from workbench.anisotropy.trials import train_direction, train_rotated
from workbench.architectures import Architecture, PerceptronNet, load_architecture

TINY = Architecture("tiny", (4,), lambda: PerceptronNet(4, 16, 1, features=8))
SHORT = dict(settings=DenoisingSettings(steps=2, batch=8, levels=10), samples=20, projections=16)


class Elsewhere(Tensor):
    """A tensor of another device."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        moves = func is Tensor.cpu or (func is Tensor.to and _names_a_place(args, kwargs))
        if not moves and any(not isinstance(leaf, Elsewhere) and leaf.ndim for leaf in leaves):
            raise RuntimeError(f"tensors on two devices meet in {func.__name__}")
        out = super().__torch_function__(func, types, args, kwargs)
        return (
            tree_map(lambda v: v.as_subclass(Tensor) if isinstance(v, Tensor) else v, out) if moves else out
        )


def _names_a_place(args, kwargs):
    named = (str, torch.device)
    return "device" in kwargs or any(isinstance(a, named) or type(a) is Tensor for a in args[1:])


def _at_hand(value):
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value


def elsewhere(values):
    return values.as_subclass(Elsewhere)


def test_the_stand_in_refuses_to_meet_the_host():
    with pytest.raises(RuntimeError, match="two devices"):
        elsewhere(torch.ones(2)) + torch.ones(2)
    assert type(elsewhere(torch.ones(2)).double().cpu()) is Tensor


def test_directions_from_elsewhere_are_learnt_like_those_at_hand():
    axis = torch.eye(4)[:1]
    assert_close(
        train_direction(TINY, elsewhere(axis), **SHORT).sliced, train_direction(TINY, axis, **SHORT).sliced
    )


def test_data_and_rotations_from_elsewhere_are_learnt_like_those_at_hand(generator):
    points = torch.randn(60, 4, generator=generator)
    turn = torch.eye(4, dtype=torch.float64)[[1, 0, 2, 3]]
    found = train_rotated(TINY, elsewhere(points), rotation=elsewhere(turn), **SHORT)
    assert_close(found.sliced, train_rotated(TINY, points, rotation=turn, **SHORT).sliced)


def test_products_take_vectors_from_elsewhere(generator):
    made = make_ensemble(load_architecture("dit8-2"), levels=ddpm_levels(), probe=ZERO, seed=0)
    whole = SeededGeometry(made, 3)
    vectors = torch.randn(2, 64, generator=generator)
    assert_close(whole.apply(elsewhere(vectors)), whole.apply(vectors))
    columns = torch.randn(made.head.core, 2, generator=generator, dtype=torch.float64)
    assert_close(whole.apply_core(elsewhere(columns)), whole.apply_core(columns))


def test_a_data_set_from_elsewhere_is_aligned(generator):
    geometry = average_geometry(load_architecture("dit8-2"), networks=2, seed=0)
    half = torch.randn(64, 64, generator=generator, dtype=torch.float64)
    moment = half @ half.T
    found = align(geometry, elsewhere(moment))
    assert_close(found.value, align(geometry, moment).value)
    assert_close(alignment_of(geometry, elsewhere(moment), elsewhere(found.w_min)), found.minimum)
