"""Hooks: methods that run before and after events of a document, marked with `@before`, `@after`, `@around`.

Knows no connection. Hooks of embedded documents run one after another, never nested.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from mangonel.odm._registry import is_embedded, is_embedded_instance, models
from mangonel.odm.model.annotations import classes_in
from mangonel.odm.model.fields import Resolved

EVENTS = frozenset(
    {
        "validate",
        "insert",
        "update",
        "save",
        "delete",
        "load",
        "commit",
        "rollback",
        "query_update",
        "query_delete",
    }
)

# Events that no hook can run before.
ONLY_AFTER = frozenset({"load", "commit", "rollback"})

# Events of queries, whose hooks belong to a class, not a document.
OF_QUERIES = ("query_update", "query_delete")

# Events that a generator can wrap.
AROUND = frozenset({"insert", "update", "save", "delete"})

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class Hook:
    """One hook: its events and its function."""

    __slots__ = ("events", "function", "is_coroutine", "name")

    def __init__(self, name: str, function: Callable[..., Any], events: tuple[str, ...]) -> None:
        self.name = name
        self.function = function
        self.events = events
        self.is_coroutine = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if any(event.startswith("around") for event in events) and not (
            inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        ):
            raise TypeError(f"expected a generator function for around(), got {name!r}, which has no yield")
        if self.is_coroutine and "after_load" in events:
            raise TypeError(
                f"expected a plain function for after('load'), got the coroutine function {name!r}"
            )


def before(*events: str) -> Callable[[Method], Method]:
    """Run a method before events: validate, insert, update, save, delete, query_update, query_delete.

    On asyncio a hook may be a coroutine function. Hooks of `query_update` and `query_delete` are class methods; they
    receive the filter and, for updates, the update document, and may change them.

    Example:
        >>> @before("save")
        ... def _strip(self) -> None:
        ...     self.title = self.title.strip()
    """
    return _mark("before", events)


def after(*events: str) -> Callable[[Method], Method]:
    """Run a method after events: those of `before`, and load, commit, rollback.

    `commit` runs when the transaction of the save commits, or at once without a transaction; `rollback` when it is
    rolled back and the document restored. A model with an `after("load")` hook is loaded with one Python call per
    document, other models without any.

    Args:
        events: names of events.

    Example:
        >>> class Note(Document):
        ...     title: str
        ...
        ...     @after("save")
        ...     def _tell(self):
        ...         print("saved", self.title)
        >>> Note(title="tea").save().title
        saved tea
        'tea'
    """
    return _mark("after", events)


def around(*events: str) -> Callable[[Method], Method]:
    """Run a generator method around events: insert, update, save, delete. The event happens at its one `yield`.

    An error of the event is raised at the `yield`, and again after the hook. Without a `yield` the event does not
    happen, and TypeError is raised; to prevent an event, raise an error of your own. On asyncio it may be an
    asynchronous generator.

    Args:
        events: names of events.

    Example:
        >>> class Report(Document):
        ...     title: str
        ...
        ...     @around("save")
        ...     def _timed(self):
        ...         print("saving", self.title)
        ...         yield
        ...         print("saved")
        >>> Report(title="tea").save().title
        saving tea
        saved
        'tea'
    """
    return _mark("around", events)


def _mark(when: str, events: tuple[str, ...]) -> Callable[[Method], Method]:
    names = _names(when, events)

    def mark(method: Method) -> Method:
        target: Any = method.__func__ if isinstance(method, classmethod) else method
        target.__odm_events__ = (*getattr(target, "__odm_events__", ()), *names)
        return method

    return mark


def _names(when: str, events: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a hook's events."""
    known = {"around": AROUND, "before": EVENTS - ONLY_AFTER}.get(when, EVENTS)
    if not events:
        raise TypeError(f"expected an event for {when}(), such as {when}('save'), got none")
    for event in events:
        if event not in known:
            raise ValueError(f"expected events among {', '.join(sorted(known))}, got {event!r}")
    return tuple(f"{when}_{event}" for event in events)


# The hooks from `listen`: the model and the hook.
_listened: list[tuple[Any, Hook]] = []


def listen(when: str, event: str, function: Callable[..., Any], model: Any = None) -> Callable[[], None]:
    """Call a function before or after an event of all documents, or of a model and its subclasses.

    Args:
        when: "before" or "after".
        event: as for `before` and `after`: "save", "insert", "delete", ….
        function: called with the document; for `query_update` and `query_delete` with the model, the filter and, for
            updates, the update document. A coroutine function works on asyncio only.
        model: a document class. None: all of them.

    Returns:
        A function without arguments that removes the listener.

    Raises:
        TypeError: the function is not callable, or the model is not a document class.
        ValueError: the event does not exist.

    Example:
        >>> stop = listen("after", "save", lambda document: print("saved", document.title), Post)
        >>> Post(title="Tea").save().title
        saved Tea
        'Tea'
        >>> stop()
    """
    if when not in ("before", "after"):
        raise ValueError(f'expected "before" or "after", got {when!r}')
    if not callable(function):
        raise TypeError(f"expected a function to call {when} {event!r}, got {function!r}")
    if model is not None and not (isinstance(model, type) and hasattr(model, "__is_document__")):
        raise TypeError(f"expected a document class, or None for all of them, got {model!r}")
    hook = Hook(getattr(function, "__name__", "function"), function, _names(when, (event,)))
    entry = (model, hook)
    _listened.append(entry)
    _announce(event)

    def stop() -> None:
        if entry in _listened:
            _listened.remove(entry)
            _announce(event)

    return stop


def _announce(event: str) -> None:
    """Set the current hooks on every model."""
    forget_plans()
    for cls in models:
        cls.__hooks__ = collect_hooks(cls)
        if event == "load":
            # The core calls hooks of loading itself.
            cls.__model__.reset()


def forget_plans() -> None:
    """Discard the cached hooks and class attributes of every model; they are read again at next use."""
    for cls in models:
        cls.__plan__.is_plain = cls.__plan__.short = None


def _is_meant(cls: Any, model: Any) -> bool:
    return bool(cls.__is_document__) if model is None else issubclass(cls, model)


def collect_hooks(cls: Any) -> dict[str, list[Hook]]:
    """Return the hooks of a class by event, a base's first; a redefined method counts once."""
    found: dict[str, Hook] = {}
    for parent in reversed(cls.__mro__):
        for name, value in vars(parent).items():
            function = value.__func__ if isinstance(value, classmethod) else value
            events = getattr(function, "__odm_events__", None)
            if events is not None and callable(function):
                is_of_queries = any(event.endswith(OF_QUERIES) for event in events)
                if isinstance(value, staticmethod) or is_of_queries != isinstance(value, classmethod):
                    kind = "a class method" if is_of_queries else "a method with self"
                    raise TypeError(
                        f"expected {kind} for the hook {parent.__name__}.{name}, got {type(value).__name__}"
                    )
                found[name] = Hook(name, function, events)
            elif name in found and callable(function):
                found.pop(name)
    by_event: dict[str, list[Hook]] = {}
    heard = [hook for model, hook in _listened if _is_meant(cls, model)]
    for hook in [*found.values(), *heard]:
        for event in hook.events:
            by_event.setdefault(event, []).append(hook)
    return by_event


def load_hook(cls: Any) -> Callable[[Any], None] | None:
    """Return the function that the core calls with each loaded instance, or None."""
    hooks = cls.__hooks__.get("after_load")
    if not hooks:
        return None
    functions = [hook.function for hook in hooks]
    if len(functions) == 1:
        return functions[0]

    def run(instance: Any) -> None:
        for function in functions:
            function(instance)

    return run


def has_hooks(cls: Any, *events: str) -> bool:
    """Whether a class, or an embedded class in it, has one of these hooks."""
    return any(event in model.__hooks__ for model in family(cls) for event in events)


def family(cls: Any) -> list[Any]:
    """Return the class and the embedded classes that its fields may hold, with their subclasses."""
    cached: tuple[int, list[Any]] | None = cls.__dict__.get("__hook_family__")
    # A model defined later may be such a subclass.
    if cached is not None and cached[0] == len(models):
        return cached[1]
    found = [cls]
    for model in found:
        held = [one for field in model.__plan__.fields.values() for one in embedded_in_field(field)]
        held += model.__subclasses__() if model is not cls else []
        found += [one for one in dict.fromkeys(held) if one not in found]
    type.__setattr__(cls, "__hook_family__", (len(models), found))
    return found


def embedded_in_field(field: Resolved) -> Iterator[Any]:
    """Yield the embedded classes in a field's type."""
    return (one for one in classes_in(field.type, field.info.owner) if is_embedded(one))


def listeners(instance: Any, event: str) -> Iterator[tuple[Hook, Any]]:
    """Yield the hooks of an event with their instances: the document's, then those of embedded documents.

    It uses a queue, not recursion, so that thousands of embedded documents cannot exhaust the stack.
    """
    cls = type(instance)
    models = family(cls)
    if not any(event in model.__hooks__ for model in models):
        return
    queue = [instance]
    for current in queue:
        for hook in type(current).__hooks__.get(event, ()):
            yield hook, current
        if len(models) > 1:
            queue.extend(_embedded(current))


def _embedded(instance: Any) -> Iterator[Any]:
    for name, field in instance.__plan__.fields.items():
        if field.model is not None:
            yield from _embedded_in(getattr(instance, name, None))


def _embedded_in(value: Any) -> Iterator[Any]:
    if is_embedded_instance(value):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _embedded_in(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _embedded_in(item)


def run_plain(instance: Any, event: str) -> None:
    """Run hooks that must not wait."""
    for hook, current in listeners(instance, event):
        _refuse_coroutine(hook)
        hook.function(current)


async def run_flow(instance: Any, event: str, port: Any) -> None:
    """Run hooks, awaiting those that are coroutine functions."""
    for hook, current in listeners(instance, event):
        if not port.is_async:
            _refuse_coroutine(hook)
        await port.call(hook.function, current)


async def around_flow(
    documents: list[tuple[Any, str]],
    port: Any,
    act_flow: Callable[..., Coroutine[Any, Any, T]],
    *arguments: Any,
) -> T:
    """Run a flow on documents inside their `around` hooks.

    Args:
        documents: each with its event.
        port: the face's port.
        act_flow: the flow.
        arguments: arguments of the flow.
    """
    entered: list[tuple[Hook, Any]] = []
    try:
        for document, name in documents:
            for event in ("around_save", f"around_{name}") if name != "delete" else ("around_delete",):
                for hook, current in listeners(document, event):
                    if not port.is_async:
                        _refuse_coroutine(hook)
                    generator = hook.function(current)
                    if not await _step_flow(hook, generator, port, None):
                        raise TypeError(
                            f"expected one yield in the hook {hook.name!r} around an event, got none: nothing was "
                            "done; raise an error to prevent it"
                        )
                    entered.append((hook, generator))
        made = await act_flow(*arguments)
    except BaseException as error:
        for hook, generator in reversed(entered):
            await _step_flow(hook, generator, port, error)
        raise
    for hook, generator in reversed(entered):
        if await _step_flow(hook, generator, port, None):
            raise TypeError(f"expected one yield in the hook {hook.name!r} around an event, got another")
    return made


async def _step_flow(hook: Hook, generator: Any, port: Any, error: BaseException | None) -> bool:
    """Resume a generator, or raise an error in it; return whether it yielded."""
    try:
        if hook.is_coroutine:
            if error is None:
                await port.call(generator.__anext__)
            else:
                await port.call(generator.athrow, error)
        # Here and not in the port: a coroutine cannot raise StopIteration.
        elif error is None:
            next(generator)
        else:
            generator.throw(error)
    except (StopIteration, StopAsyncIteration):
        return False
    except BaseException as raised:
        if raised is not error:
            raise
        return False
    return True


async def run_query_flow(cls: Any, event: str, port: Any, query: Any, update: Any = None) -> None:
    """Run the class hooks of a query's update or delete."""
    for hook in cls.__hooks__.get(event, ()):
        if not port.is_async:
            _refuse_coroutine(hook)
        arguments = (query,) if update is None else (query, update)
        await port.call(hook.function, cls, *arguments)


def _refuse_coroutine(hook: Hook) -> None:
    if hook.is_coroutine:
        raise TypeError(
            f"cannot run the coroutine function {hook.name!r} as a hook on the blocking face; use the asyncio methods, "
            "or a plain function"
        )
