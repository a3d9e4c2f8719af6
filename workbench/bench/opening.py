"""Going from one subject to another: what of a state makes sense there, and models in memory."""

from collections.abc import Callable

from workbench.bench.geodesics import metrics_for
from workbench.bench.places import subject_of_state
from workbench.bench.state import BenchState
from workbench.errors import SettingError
from workbench.subjects import Subject


def without_place(state: BenchState, *, world: str = "", model: str = "fashion") -> BenchState:
    """A state with another subject and nothing that belonged to the old one: ends, class, level, plane."""
    return state.but(
        world=world,
        model=model,
        condition="",
        guidance=0.0,
        start="",
        end="",
        via="",
        sigma=None,
        projection="",
    )


def suited(state: BenchState, subject: Subject) -> BenchState:
    """A state whose metric and regimes are among those that its subject has; the subject's first where not.

    Args:
        state: What is asked.
        subject: Its subject.

    Returns:
        The state; the same where everything is there.
    """
    metrics = metrics_for(subject)
    regimes = [name for name in state.regime_names if name in subject.regimes] or subject.regimes[:1]
    metric = state.metric if state.metric in metrics else metrics[0]
    return state.but(metric=metric, regimes=",".join(regimes) or state.regimes)


def opener_with(own: Subject) -> Callable[[BenchState], Subject]:
    """What opens subjects where one of them is in memory: that one by its name, others as ever.

    Args:
        own: The subject in memory.

    Returns:
        The opener, for a bench. It refuses a class or guidance for the subject in memory.
    """

    def opened(state: BenchState) -> Subject:
        if state.world or state.model != own.frame.name:
            return subject_of_state(state)
        if state.condition or state.guidance:
            raise SettingError(
                f"condition {state.condition!r} and guidance {state.guidance:g} for {own.frame}, in memory",
                "a model with its condition bound",
                "wrap(..., condition=...)",
            )
        return own

    return opened
