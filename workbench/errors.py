"""The errors a user can meet. Each is one sentence: what was got, what was expected, what to try next."""


class WorkbenchError(Exception):
    """Base of every error that the workbench raises on purpose."""


class _Explained(WorkbenchError):
    """An error that states got, expected and the next thing to try.

    Args:
        got: What arrived, with its value.
        expected: What would have been accepted.
        hint: The next thing to try, phrased to follow the word "try".
    """

    def __init__(self, got: object, expected: object = "", hint: object = "") -> None:
        self.got, self.expected, self.hint = str(got), str(expected), str(hint)
        parts = [f"got {self.got}"]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.hint:
            parts.append(f"try {self.hint}")
        super().__init__("; ".join(parts))

    def __reduce__(self):
        return type(self), (self.got, self.expected, self.hint)


class ShapeError(_Explained, ValueError):
    """A tensor has the wrong shape or dtype."""


class SettingError(_Explained, ValueError):
    """An argument has a value that the method cannot use."""


class DataError(_Explained, ValueError):
    """A file or data set cannot be read, or holds values that cannot be used."""


class ModelOutputError(_Explained, ArithmeticError):
    """A model returned something that is not a finite answer; says where and at which noise level."""


class MissingExtra(_Explained, ImportError):
    """An optional package is not installed; names the extra that brings it."""

    @classmethod
    def of(cls, package: str, extra: str) -> "MissingExtra":
        """The error for a missing ``package`` that ``extra`` installs."""
        return cls(
            got=f"no installed package {package!r}",
            expected=f"the optional extra [{extra}]",
            hint=f"pip install 'latent-workbench[{extra}]'",
        )


class Cancelled(WorkbenchError):
    """A computation ended, or never began, since nobody waits for it any more."""

    @classmethod
    def before(cls, moment: str) -> "Cancelled":
        """The error for a computation that was cancelled before a moment."""
        return cls(f"cancelled before {moment}; open it again to go on")


class NotConverged(WorkbenchError, RuntimeError):
    """Raised by ``SolveReport.raise_if_failed`` when a solve did not converge."""


class ConvergenceWarning(UserWarning):
    """A result was returned whose solve did not converge; its report says why."""
