"""The lenses that the bench asks, in the order of its tables. A further lens is one more entry here."""

from workbench.bench.answers import BenchLens
from workbench.bench.directions import ask_anisotropy
from workbench.bench.geodesics import ask_fisher
from workbench.bench.trajectories import ask_conda
from workbench.bench.ways import ask_paths
from workbench.errors import SettingError

BENCH_LENSES: tuple[BenchLens, ...] = (
    BenchLens("paths", "Which way leads from one sample to the other?", ask_paths),
    BenchLens("fisher", "How far apart are they, and what is the shortest way?", ask_fisher),
    BenchLens(
        "anisotropy",
        "What does the model resolve there, and what does its architecture prefer?",
        ask_anisotropy,
    ),
    BenchLens("conda", "Which trajectory does the context draw between them?", ask_conda),
)


def lens_named(name: str) -> BenchLens:
    """The entry of that name.

    Raises:
        SettingError: If no lens has that name.
    """
    for lens in BENCH_LENSES:
        if lens.name == name:
            return lens
    raise SettingError(f"lens {name!r}", f"one of {', '.join(lens.name for lens in BENCH_LENSES)}")
