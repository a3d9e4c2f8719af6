"""String solvers: curves that relax in a landscape, or ride a diffusion from noise to data.

`static` relaxes strings at one landscape (`descent` is one level of it); `evolution` carries them through
the noise levels at the pace of `clock`, and `relaxation` moves them at one of these in `chebyshev` steps;
`walkers` adds temperature. `profile` reads energies off a string, `reading` barriers with their errors, and
`saddles` polishes its maxima.
"""
