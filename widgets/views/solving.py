"""What the views of single lenses share: one scheduler, waited for, cancelled and closed in the same way."""

from typing import Any

import ipywidgets

from widgets.scheduling import Scheduler, Speed


class SolvingView(ipywidgets.VBox):
    """A view whose answers come from a scheduler; a view whose settings are refused never has one."""

    _scheduler: Scheduler | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return self._scheduler is not None and self._scheduler.busy

    def wait(self, timeout: float = 120.0) -> bool:
        """Block until the answer to the last request is on the screen; False if that took longer."""
        return self._scheduler is None or self._scheduler.wait(timeout)

    def cancel(self) -> None:
        """Stop computing and keep the best so far."""
        if self._scheduler is not None:
            self._scheduler.cancel()

    def close(self) -> None:
        """Stop computing and remove the view."""
        if self._scheduler is not None:
            self._scheduler.close()
        super().close()

    def _request(self, request: Any, speed: Speed, delay: float) -> None:
        """Ask the scheduler, once there is one."""
        if self._scheduler is not None:
            self._scheduler.submit(request, speed, delay=delay)
