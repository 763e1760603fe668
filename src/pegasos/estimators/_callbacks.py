"""scikit-learn's callbacks (1.9 and later): one task per epoch, which may ask to stop.

Older versions of scikit-learn have no callbacks; then nothing happens.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

try:
    from sklearn import callback as _callback
except ImportError:
    _callback = None


if TYPE_CHECKING:

    class CallbackSupportMixin:  # with a base of `Any`, checkers would accept any parameters
        def __getattr__(self, name: str) -> Any: ...

else:
    CallbackSupportMixin = getattr(_callback, "CallbackSupportMixin", type("Nothing", (), {}))
_with_callbacks: Any = getattr(_callback, "with_callbacks", lambda method: method)
# Ends the callbacks of an estimator, as scikit-learn does at the end of decorated methods.
_tear_down = _with_callbacks(lambda estimator: None)


class StopRequestedError(Exception):
    """A callback asked to end the fit."""


class FitCallbacks:
    """A block that tells an estimator's callbacks about a fit of `data` and its epochs."""

    def __init__(self, estimator: Any, max_epochs: int | None, **data: Any) -> None:
        self.estimator, self.max_epochs, self.data = estimator, max_epochs, data
        #: Whether there are callbacks. If not, the estimator is not touched: a second Ctrl-C could
        #: cut short scikit-learn's clearing up.
        self.is_needed = bool(getattr(estimator, "_skl_callbacks", None))

    def __enter__(self) -> Self:
        if self.is_needed:
            try:
                self._fit = self.estimator._init_callback_context(max_subtasks=self.max_epochs)
                self._fit.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            except BaseException:
                _tear_down(self.estimator)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_needed:
            _tear_down(self.estimator)

    def epoch(
        self, attributes: Callable[[], dict[str, Any]], metadata: Callable[[], dict[str, Any]]
    ) -> None:
        """Report the end of an epoch; raises `StopRequestedError` if a callback asks for it.

        `attributes` returns what a fitted estimator would have now, `metadata` objectives and gaps.
        """
        context = self._fit.subcontext(task_name="epoch")
        context.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        if context.call_on_fit_task_end(
            estimator=self.estimator,
            metadata=metadata,
            reconstruction_attributes=attributes,
            **self.data,
        ):
            raise StopRequestedError

    def end(self) -> None:
        if self.is_needed:
            self._fit.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes={}, **self.data
            )
