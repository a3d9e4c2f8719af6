"""Cite this view: the BibTeX of the methods that its answers used, and of no others.

Answers name their methods; the entries stand here once.
"""

# ruff: noqa: E501 - titles stand on one line, as BibTeX files have them

from collections.abc import Iterable

from workbench.bench.answers import LensAnswer
from workbench.bench.background import METHODS as FIELD_METHODS
from workbench.bench.state import BenchState
from workbench.errors import SettingError

ENTRIES: dict[str, str] = {
    "moreau2026probing": """@misc{moreau2026probing,
  title         = {Probing the Geometry of Diffusion Models with the String Method},
  author        = {Moreau, E. and Coeurdoux, F. and Ferre, G. and Vanden-Eijnden, E.},
  year          = {2026},
  eprint        = {2602.22122},
  archivePrefix = {arXiv},
}""",
    "e2007simplified": """@article{e2007simplified,
  title   = {Simplified and improved string method for computing the minimum energy paths in barrier-crossing events},
  author  = {E, Weinan and Ren, Weiqing and Vanden-Eijnden, Eric},
  journal = {The Journal of Chemical Physics},
  volume  = {126},
  number  = {16},
  pages   = {164103},
  year    = {2007},
  doi     = {10.1063/1.2720838},
}""",
    "vandeneijnden2009revisiting": """@article{vandeneijnden2009revisiting,
  title   = {Revisiting the finite temperature string method for the calculation of reaction tubes and free energies},
  author  = {Vanden-Eijnden, Eric and Venturoli, Maddalena},
  journal = {The Journal of Chemical Physics},
  volume  = {130},
  number  = {19},
  pages   = {194103},
  year    = {2009},
  doi     = {10.1063/1.3130083},
}""",
    "rygaard2025georce": """@misc{rygaard2025georce,
  title         = {{GEORCE}: A Fast New Control Algorithm for Computing Geodesics},
  author        = {Rygaard, F. M. and Hauberg, S.},
  year          = {2025},
  eprint        = {2505.05961},
  archivePrefix = {arXiv},
}""",
    "azeglio2025inside": """@misc{azeglio2025inside,
  title         = {What's Inside Your Diffusion Model? {A} Score-Based {Riemannian} Metric to Explore the Data Manifold},
  author        = {Azeglio, S. and Di Bernardo, A.},
  year          = {2025},
  eprint        = {2505.11128},
  archivePrefix = {arXiv},
}""",
    "arvanitidis2018latent": """@inproceedings{arvanitidis2018latent,
  title         = {Latent Space Oddity: on the Curvature of Deep Generative Models},
  author        = {Arvanitidis, G. and Hansen, L. K. and Hauberg, S.},
  booktitle     = {International Conference on Learning Representations},
  year          = {2018},
  eprint        = {1710.11379},
  archivePrefix = {arXiv},
}""",
    "saito2025image": """@misc{saito2025image,
  title         = {Image Interpolation with Score-based {Riemannian} Metrics of Diffusion Models},
  author        = {Saito, S. and Matsubara, T.},
  year          = {2025},
  eprint        = {2504.20288},
  archivePrefix = {arXiv},
}""",
    "sorrenson2024learning": """@misc{sorrenson2024learning,
  title         = {Learning Distances from Data with Normalizing Flows and Score Matching},
  author        = {Sorrenson, P. and Behrend-Uriarte, D. and Schn{\\"o}rr, C. and K{\\"o}the, U.},
  year          = {2024},
  eprint        = {2407.09297},
  archivePrefix = {arXiv},
}""",
    "efron2011tweedie": """@article{efron2011tweedie,
  title   = {Tweedie's Formula and Selection Bias},
  author  = {Efron, Bradley},
  journal = {Journal of the American Statistical Association},
  volume  = {106},
  number  = {496},
  pages   = {1602--1614},
  year    = {2011},
  doi     = {10.1198/jasa.2011.tm11181},
}""",
    "floros2025anisotropy": """@misc{floros2025anisotropy,
  title         = {On the Anisotropy of Score-Based Generative Models},
  author        = {Floros, A. and Moosavi-Dezfooli, S.-M. and Dragotti, P. L.},
  year          = {2025},
  eprint        = {2510.22899},
  archivePrefix = {arXiv},
}""",
    "kamkari2024geometric": """@misc{kamkari2024geometric,
  title         = {A Geometric View of Data Complexity: Efficient Local Intrinsic Dimension Estimation with Diffusion Models},
  author        = {Kamkari, H. and Ross, B. L. and Hosseinzadeh, R. and Cresswell, J. C. and Loaiza-Ganem, G.},
  year          = {2024},
  eprint        = {2406.03537},
  archivePrefix = {arXiv},
}""",
    "sandilya2025contrastive": """@misc{sandilya2025contrastive,
  title         = {Contrastive Diffusion Alignment: Learning Structured Latents for Controllable Generation},
  author        = {Sandilya, R. and others},
  year          = {2025},
  eprint        = {2510.14190},
  archivePrefix = {arXiv},
}""",
}
"""Every entry by its key."""

METHODS: dict[str, tuple[str, ...]] = {
    "diffusion strings": ("moreau2026probing",),
    "string method": ("e2007simplified",),
    "finite temperature strings": ("vandeneijnden2009revisiting",),
    "GEORCE": ("rygaard2025georce",),
    "score metric": ("azeglio2025inside",),
    "score Jacobian metric": ("saito2025image",),
    "decoder pullback": ("arvanitidis2018latent",),
    "density metric": ("sorrenson2024learning",),
    "Tweedie": ("efron2011tweedie",),
    "score anisotropy": ("floros2025anisotropy",),
    "FLIPD": ("kamkari2024geometric",),
    "ConDA": ("sandilya2025contrastive",),
}
"""Keys of the works that describe each method."""


def cite(answers: Iterable[LensAnswer], state: BenchState | None = None) -> str:
    """BibTeX of the methods that answers used.

    Args:
        answers: What the lenses said; those with nothing to say cite nothing.
        state: The state, for the method of its background field.

    Returns:
        Entries in the order of their first use, each once; "" where no published method was used.

    Raises:
        SettingError: If an answer names a method without an entry.
    """
    used = [method for answer in answers if answer.says_something for method in answer.methods]
    if state is not None:
        used += FIELD_METHODS.get(state.background, ())
    keys: dict[str, None] = {}
    for method in used:
        if method not in METHODS:
            raise SettingError(f"the method {method!r}", f"one of {', '.join(METHODS)}")
        keys.update(dict.fromkeys(METHODS[method]))
    return "\n\n".join(ENTRIES[key] for key in keys) + ("\n" if keys else "")
