"""Molecular geometry by other routes: scipy's rotations, planes and arc cosines; no workbench here."""

import numpy as np
from scipy.spatial.transform import Rotation

C7EQ = {"energy": -119.471, "phi": -74.4, "psi": 74.5}
"""Alanine dipeptide in vacuum, the lower basin: kJ/mol and degrees."""

C7AX = {"energy": -111.647, "phi": 61.8, "psi": -65.4}
"""The upper basin."""

GOLD_HOP = 0.374
"""Barrier of the gold atom's hop on Al(100) in effective-medium theory, eV."""


def superposed(x, reference):
    """Rows of x (atoms, 3) moved rigidly onto the reference."""
    centred, target = x - x.mean(axis=0), reference - reference.mean(axis=0)
    rotation, _ = Rotation.align_vectors(target, centred)
    return rotation.apply(centred) + reference.mean(axis=0)


def dihedral(a, b, c, d):
    """Angle between the planes abc and bcd in degrees, signed by the side on which d lies."""
    left, right = np.cross(b - a, c - b), np.cross(c - b, d - c)
    cosine = left @ right / np.linalg.norm(left) / np.linalg.norm(right)
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))) * np.sign(left @ (d - c)))


def random_motion(seed):
    """A rotation matrix and a shift."""
    rng = np.random.default_rng(seed)
    return Rotation.random(rng=rng).as_matrix(), rng.normal(size=3)
