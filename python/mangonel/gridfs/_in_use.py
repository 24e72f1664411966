"""Makes a file refuse a second task or thread while a first one uses it, as a cursor does."""

from __future__ import annotations

from mangonel._light import Any
from mangonel._shared.of_this_process import OfThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import NoReturn, TypeVar

    T = TypeVar("T")


class OneAtATime(OfThisProcess):
    """A file of GridFS: one call at a time reads or writes it."""

    # Whether a call is running. Another must not begin then: both would read the same bytes, or mix their own.
    _is_in_use = False

    def _refuse_second(self) -> NoReturn:
        raise NotImplementedError

    def _break_off(self) -> None:
        """Called after a flow has failed, or was cancelled or interrupted."""

    async def _alone_flow(self, only_flow: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run a flow of a public method.

        Raises:
            InvalidOperation: another task or thread is running one.
        """
        if self._is_in_use:
            self._refuse_second()
        # Stored in `__dict__`, since setting an attribute of an upload sets a field of its document.
        state = self.__dict__
        try:
            state["_is_in_use"] = True
            return await only_flow(*arguments)
        except BaseException:
            self._break_off()
            raise
        finally:
            state["_is_in_use"] = False
