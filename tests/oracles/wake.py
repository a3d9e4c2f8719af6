"""What is known of the wake of a cylinder, and one lattice Boltzmann step written out plainly; numpy only."""

import numpy as np

STROUHAL_BAND = (0.155, 0.185)
"""Accepted at Reynolds number 100 on a small lattice; blockage by the sides raises the value."""

CRITICAL = 47.0
"""Reynolds number below which the wake is steady."""

C = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
W = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


def strouhal(reynolds):
    """Williamson's fit for an unbounded flow."""
    return -3.3265 / reynolds + 0.1816 + 1.6e-4 * reynolds


def equilibrium(rho, u, v):
    """Equilibrium populations, shape (9, ...)."""
    along = 3 * (C[:, 0].reshape(-1, *[1] * u.ndim) * u + C[:, 1].reshape(-1, *[1] * u.ndim) * v)
    return W.reshape(-1, *[1] * u.ndim) * rho * (1 + along + along**2 / 2 - 1.5 * (u**2 + v**2))


def run(columns, rows, diameter, speed, reynolds, steps):
    """Velocity across the stream three diameters behind the centre over the inflow, at each step."""
    tau = 3 * speed * diameter / reynolds + 0.5
    x, y = np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij")
    centre = columns / 5, rows / 2 - 0.2
    solid = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < (diameter / 2) ** 2
    opposite = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    f = equilibrium(
        np.ones((columns, rows)),
        np.full((columns, rows), speed),
        1e-3 * speed * np.sin(2 * np.pi * y / rows),
    )
    inflow = equilibrium(np.ones(1), np.full(1, speed), np.zeros(1))
    series = []
    for _ in range(steps):
        rho = f.sum(0)
        u, v = (np.tensordot(C[:, k], f, 1) / rho for k in (0, 1))
        series.append(v[round(centre[0] + 3 * diameter), round(centre[1])] / speed)
        after = f + (equilibrium(rho, u, v) - f) / tau
        after[:, solid] = f[opposite][:, solid]
        for i, (a, b) in enumerate(C):
            f[i] = np.roll(after[i], (a, b), axis=(0, 1))
        f[:, 0] = inflow
        f[:, -1] = f[:, -2]
    return np.array(series)
