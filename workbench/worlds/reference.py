"""Reference curves: minimum-energy paths as the unstable manifolds of their saddles.

Along a minimum-energy path the force is tangent to the curve. From a saddle of index 1 the path is therefore
the pair of steepest-descent curves that leave it along the eigenvector of the negative eigenvalue. They are
integrated here in their own arc length, dx/ds = F/|F|, with an explicit method of order 8 at a tolerance of
1e-12, which is independent of every string solver.

References:
    Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", 1993, section II.5 (DOP853)
    E, Ren, Vanden-Eijnden, "String method for the study of rare events", 2002,
        https://doi.org/10.1103/PhysRevB.66.052301
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.types import Nodes, Points, Scalars, Vectors
from workbench.worlds.facts import Facts, Route

_LEAVE = 1e-6  # distance at which the descent starts beside a saddle: the curve is straight there to 1e-12
_ARRIVE = 1e-5  # distance to a minimum from which the rest of the curve is drawn as a straight line


def polish_stationary(
    force: Callable[[Points], Vectors], jacobian: Callable[[Points], Tensor], guess: Points, *, steps: int = 6
) -> Points:
    """Stationary points to machine precision by Newton steps from typed approximations.

    Args:
        force: Field whose zeros are wanted, shape (count, dim) to the same.
        jacobian: Its Jacobian, shape (count, dim, dim).
        guess: Approximations, shape (count, dim), good to a few digits.
        steps: Newton steps.

    Returns:
        The zeros, shape (count, dim).
    """
    x = guess
    for _ in range(steps):
        x = x - torch.linalg.solve(jacobian(x), force(x).unsqueeze(-1)).squeeze(-1)
    return x


def descend(force: Callable[[Points], Vectors], saddle: Tensor, direction: Tensor, goal: Tensor) -> tuple:
    """Steepest descent from beside a saddle to a minimum, in arc length.

    Args:
        force: The force field.
        saddle: A saddle of index 1, shape (dim,).
        direction: Unit vector along which to leave it.
        goal: The minimum that is reached, shape (dim,).

    Returns:
        (curve, length): points, shape (count, dim), at arc lengths (count,) from the saddle, as numpy
        arrays; and the arc length to the minimum.

    Raises:
        SettingError: If the descent ends elsewhere.
    """
    from scipy.integrate import solve_ivp

    target = goal.numpy()

    def unit_force(_, x):
        value = force(torch.from_numpy(x)[None])[0].numpy()
        return value / np.linalg.norm(value)

    def arrived(_, x):
        return np.linalg.norm(x - target) - _ARRIVE

    arrived.terminal = True
    begin = (saddle + _LEAVE * direction).numpy()
    reach = 100.0 * (1.0 + float(torch.linalg.vector_norm(goal - saddle)))
    run = solve_ivp(
        unit_force,
        (_LEAVE, reach),
        begin,
        "DOP853",
        rtol=1e-12,
        atol=1e-13,
        events=arrived,
        dense_output=True,
    )
    if run.status != 1:
        raise SettingError(
            f"a descent from {saddle.tolist()} that misses {goal.tolist()}",
            "its minimum",
            "the other direction",
        )
    last, tip = float(run.t[-1]), run.y[:, -1]
    length = last + float(np.linalg.norm(tip - target))

    def curve(arc):
        inside = np.clip(arc, _LEAVE, last)
        beyond = np.clip((arc - last) / (length - last), 0.0, 1.0)[:, None]
        return run.sol(inside).T + beyond * (target - tip)

    return curve, length


def follow_route(
    force: Callable[[Points], Vectors],
    hessian: Callable[[Points], Tensor],
    route: Route,
    *,
    nodes: int = 2001,
    unstable: int = 0,
) -> tuple[Nodes, float]:
    """The path of a route as a polyline of equal steps in arc length.

    Args:
        force: The force field.
        hessian: Hessian whose eigenvalue `unstable` (in rising order) belongs to the descent direction.
        route: Minima and saddles in the order of the path.
        nodes: Number of points.
        unstable: 0 for an energy, -1 for a log density.

    Returns:
        (points of shape (nodes, dim), length). The ends are the minima, bit for bit.
    """
    pieces = []  # (curve, length, whether the piece runs towards its saddle)
    for k, saddle in enumerate(route.saddles):
        before, after = route.minima[k], route.minima[k + 1]
        direction = torch.linalg.eigh(hessian(saddle[None])[0]).eigenvectors[:, unstable]
        if direction @ (after - before) < 0:
            direction = -direction
        pieces.append((*descend(force, saddle, -direction, before), True))
        pieces.append((*descend(force, saddle, direction, after), False))
    corners = np.cumsum([0.0] + [length for _, length, _ in pieces])
    arc = np.linspace(0.0, corners[-1], nodes)
    points = np.empty((nodes, route.minima.shape[1]))
    for (curve, length, rising), low in zip(pieces, corners[:-1], strict=True):
        inside = (arc >= low) & (arc <= low + length)
        along = length - (arc[inside] - low) if rising else arc[inside] - low
        points[inside] = curve(along)
    path = torch.from_numpy(points)
    path[0], path[-1] = route.minima[0], route.minima[-1]
    return path, float(corners[-1])


def route_of(facts: Facts, name: str | None) -> Route:
    """The route of that name, the reference one for None.

    Raises:
        SettingError: If the world knows no such route.
    """
    if name is None:
        return facts.routes[0]
    for route in facts.routes:
        if route.name == name:
            return route
    known = ", ".join(route.name for route in facts.routes)
    raise SettingError(f"route {name!r}", f"one of {known}", "None for the reference route")


def deviation(points: Points, path: Tensor) -> Scalars:
    """Distance of points to a polyline.

    Args:
        points: Shape (*batch, dim).
        path: Corners of the polyline, shape (nodes, dim).

    Returns:
        Distances, shape (*batch). Differentiable except at corners. For a fine reference path its own error
        is an eighth of the squared step times the curvature.
    """
    begin, step = path[:-1], path[1:] - path[:-1]
    squared = step.square().sum(-1).clamp_min(torch.finfo(path.dtype).tiny)
    offset = points.unsqueeze(-2) - begin
    share = ((offset * step).sum(-1) / squared).clamp(0.0, 1.0)
    return torch.linalg.vector_norm(offset - share.unsqueeze(-1) * step, dim=-1).amin(-1)
