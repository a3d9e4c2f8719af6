"""What a calibrated denoiser of independent normals shows, by textbook formulas; no workbench here."""

import numpy as np


def gaussian_calibration(sigma, v):
    """(error, push) per entry of the posterior mean of N(0, v^2) data under noise sigma.

    The posterior variance is the harmonic sum of both variances; the noise that is seen is
    y sigma/(v^2+sigma^2), whose mean square is sigma^2/(v^2+sigma^2).
    """
    precision = 1.0 / np.square(sigma) + 1.0 / v**2
    return 1.0 / precision, np.square(sigma) / (np.square(sigma) + v**2)
