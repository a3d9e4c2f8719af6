"""String solvers: curves that relax in a landscape, or ride a diffusion from noise to data.

`static` relaxes strings at one landscape, `evolution` carries them through the noise levels, `walkers` adds
temperature; `profile` reads energies and barriers off a string, `saddles` polishes its maxima.
"""
