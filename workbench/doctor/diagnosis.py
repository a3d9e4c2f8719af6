"""What the doctor found: findings, costs, and a row for every lens; as values and as text."""

from dataclasses import dataclass

from workbench.report import Estimate, Provenance

VERDICTS = ("ok", "note", "fault", "not checked")
"""What a finding can say; only a fault makes a model unsound."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What, in a word or two.
        verdict: One of `VERDICTS`.
        sentence: What was found, with its number.
        remedy: What to try; empty if nothing.
    """

    name: str
    verdict: str
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.sentence + (f"; try {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Costs:
    """What asking the model costs on this device, per point.

    Attributes:
        evaluation: Milliseconds of D(y, sigma), in a batch.
        single: Milliseconds of D(y, sigma) for one point alone.
        forward: Milliseconds of one product J v; None where there is none.
        backward: Milliseconds of one product J^T w; None where there is none.
        decoding: Milliseconds of decoding a latent; None without a decoder.
        memory: Megabytes that an evaluation holds at its peak, beyond the weights.
        memory_backward: The same for J^T w; None where there is none.
        batch: Points in the batch that was timed.
    """

    evaluation: Estimate
    single: Estimate
    forward: Estimate | None
    backward: Estimate | None
    decoding: Estimate | None
    memory: float
    memory_backward: float | None
    batch: int


@dataclass(frozen=True, slots=True)
class LensRow:
    """What one lens can do with the model, and what that costs.

    Attributes:
        lens: Name of the lens.
        task: What is asked of it, with the settings that were reckoned with.
        works: Whether it can.
        lacks: What is missing; empty if it works.
        calls: Model calls in points, derivative products counted as the evaluations they cost; 0 for none.
        seconds: Estimated time on this device; None if unknown.
    """

    lens: str
    task: str
    works: bool
    lacks: str
    calls: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `examine` found.

    Attributes:
        model: The model in words.
        kind: What it is, in words: on data or on latents, dimension, range of noise.
        findings: Everything that was looked at, in order.
        costs: Time and memory; None where the model cannot be asked.
        lenses: One row for each task of a lens.
        seconds: How long the examination took.
        provenance: Settings, seed, device and versions.
    """

    model: str
    kind: str
    findings: tuple[Finding, ...]
    costs: Costs | None
    lenses: tuple[LensRow, ...]
    seconds: float
    provenance: Provenance

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that make it unsound."""
        return tuple(finding for finding in self.findings if finding.verdict == "fault")

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.faults

    def finding(self, name: str) -> Finding | None:
        """The finding of that name, if it was looked at."""
        return next((finding for finding in self.findings if finding.name == name), None)

    def text(self) -> str:
        """Everything as lines of text: the verdict, findings, costs, and the table of lenses."""
        said = "sound" if self.sound else f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
        lines = [f"{self.model}: {said}", f"  {self.kind}", ""]
        lines += [f"  {SIGNS[f.verdict]} {f.name:20s} {f}" for f in self.findings]
        if self.costs is not None:
            lines += ["", *(f"  {name:32s} {value}" for name, value in cost_rows(self.costs))]
        if self.lenses:
            lines.append("")
            lines += [f"  {a:14s} {b:44s} {c:>9s} {d:>10s}  {e}" for a, b, c, d, e in lens_rows(self.lenses)]
        lines.append(f"\nexamined in {self.seconds:.1f} s on {self.provenance.device}")
        return "\n".join(lines)


SIGNS = {"ok": "+", "note": "~", "fault": "!", "not checked": "-"}
"""Sign of each verdict in text."""


def cost_rows(costs: Costs) -> list[tuple[str, str]]:
    """Names and values of the costs, ready to print."""
    rows = [
        (f"evaluation, {costs.batch} at a time", f"{costs.evaluation} a point"),
        ("evaluation, one alone", str(costs.single)),
    ]
    for name, estimate in (
        ("product J v (forward)", costs.forward),
        ("product Jᵀ w (backward)", costs.backward),
    ):
        rows.append((name, "none" if estimate is None else f"{estimate} a point"))
    if costs.decoding is not None:
        rows.append(("decoding", f"{costs.decoding} a point"))
    rows.append(("memory of an evaluation", f"{costs.memory:.3g} MB a point"))
    if costs.memory_backward is not None:
        rows.append(("memory of Jᵀ w", f"{costs.memory_backward:.3g} MB a point"))
    return rows


def lens_rows(lenses: tuple[LensRow, ...]) -> list[tuple[str, str, str, str, str]]:
    """The table of lenses as text, its head first."""
    rows = [("lens", "task", "calls", "time", "")]
    for row in lenses:
        calls = f"{row.calls:,}" if row.calls else "none"
        took = "no time" if row.seconds is None else duration(row.seconds)
        calls, took, said = (calls, took, "works") if row.works else ("", "", f"lacks {row.lacks}")
        rows.append((row.lens, row.task, calls, took, said))
    return rows


def duration(seconds: float) -> str:
    """A time in a unit that a person reads at a glance."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
