"""A collection's indexes, and its search indexes. Spec: index-management, enumerate-indexes."""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect
from mangonel._core import KIND_READ, READ_BATCH
from mangonel._light import Generic, Iterable, Mapping
from mangonel._options.index_keys import index_list, index_name
from mangonel._shared.client.admin_commands import (
    MISSING_IS_FINE,
    NAMESPACE_NOT_FOUND,
    PLAIN,
    AdministeredSource,
)
from mangonel._shared.face_result import FaceResult
from mangonel._shared.replies import ReplyTo, cursor_of
from mangonel._shared.settings import session_of
from mangonel.common import validate_list
from mangonel.errors import ConfigurationError, OperationFailure
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mangonel._shared.cursors.command_cursor import _CommandCursor
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.son import SON
    from mangonel.operations import IndexModel, SearchIndexModel
    from mangonel.typings import _IndexKeyHint


class CollectionIndexes(AdministeredSource, Generic[_DocumentType]):
    """Creates, lists and drops the indexes of a collection."""

    _name: str
    _command_cursor_class: type[Any]

    def create_index(
        self,
        keys: _IndexKeyHint,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[str]:
        """Create an index unless it already exists; return its name.

        Args:
            keys: a key, or (key, direction) pairs.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: options of the index as for `IndexModel`: `name`, `unique`, `sparse`, `expireAfterSeconds`,
                `partialFilterExpression`, `collation`, `hidden`; and `maxTimeMS` for the command.

        Raises:
            DuplicateKeyError: the documents violate `unique`. No index was created.
            OperationFailure: another index has the same name or keys, or the server refused for another reason.
            AutoReconnect: the connection broke. The index build may have started; it is safe to try again.

        Example:
            >>> client.shop.orders.create_index([("customer", 1), ("total", -1)])
            'customer_1_total_-1'
        """
        self = self._limited(timeout_ms)
        from mangonel.operations import IndexModel

        options = {"maxTimeMS": kwargs.pop("maxTimeMS")} if "maxTimeMS" in kwargs else {}
        return self._port.flow(self._create_index_flow(IndexModel(keys, **kwargs), session, comment, options))

    async def _create_index_flow(
        self, index: IndexModel, session: _ClientSession | None, comment: Any, options: dict[str, Any]
    ) -> str:
        return (await self._create_indexes_flow([index], session, comment, options))[0]

    def create_indexes(
        self,
        indexes: Sequence[IndexModel],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[list[str]]:
        """Create several indexes with one command; return their names.

        Args:
            indexes: a list of IndexModel.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command: `commitQuorum`, `maxTimeMS`.

        Raises:
            TypeError: `indexes` is not a list of IndexModel.
            DuplicateKeyError, OperationFailure, AutoReconnect: as for `create_index`.

        Example:
            >>> client.shop.orders.create_indexes([IndexModel("customer"), IndexModel("total")])
            ['customer_1', 'total_1']
        """
        self = self._limited(timeout_ms)
        validate_list("indexes", indexes)
        return self._port.flow(self._create_indexes_flow(indexes, session, comment, kwargs))

    async def _create_indexes_flow(
        self,
        indexes: Sequence[IndexModel],
        session: _ClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> list[str]:
        from mangonel.operations import IndexModel

        for index in indexes:
            if not isinstance(index, IndexModel):
                raise TypeError(f"{index!r} is not an instance of IndexModel")
        documents = [index.document for index in indexes]
        command = {"createIndexes": self._name, "indexes": documents, **options}
        await self._administer_flow(command, session=session, comment=comment)
        return [document["name"] for document in documents]

    def drop_index(
        self,
        index_or_name: _IndexKeyHint,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[None]:
        """Drop an index. Does nothing if the collection does not exist.

        Args:
            index_or_name: the name of the index, or, if it was created without a name, its list of keys.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command.

        Raises:
            TypeError: `index_or_name` is neither a name nor a list.
            OperationFailure: the index does not exist.
            AutoReconnect: the connection broke. Whether the index is gone is not known.

        Example:
            >>> client.shop.orders.drop_index(client.shop.orders.create_index("customer"))
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._drop_index_flow(index_or_name, session, comment, kwargs))

    def drop_indexes(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[None]:
        """Drop all indexes except the one on `_id`. Arguments and errors as for `drop_index`.

        Example:
            >>> client.shop.orders.drop_indexes()
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._drop_index_flow("*", session, comment, kwargs))

    async def _drop_index_flow(
        self,
        index_or_name: _IndexKeyHint,
        session: _ClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> None:
        name = index_name(index_list(index_or_name)) if isinstance(index_or_name, list) else index_or_name
        if not isinstance(name, str):
            raise TypeError(f"index_or_name must be an instance of str or list, not {type(name)}")
        command = {"dropIndexes": self._name, "index": name, **options}
        await self._administer_flow(
            command, session=session, comment=comment, allowable_errors=MISSING_IS_FINE
        )

    def list_indexes(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> FaceResult[_CommandCursor[SON[str, Any]]]:
        """Return a cursor over the descriptions of the indexes; an empty one if the collection does not exist.

        Args:
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the first command and all batches together; 0: no limit. None: the usual limit.
            timeout_mode: `"iteration"`: the limit holds for the first command, and again for each later batch.
                `"cursor_lifetime"` or None: it is for all of them together.

        Raises:
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> name = client.shop.orders.create_index("customer")
            >>> [index["name"] for index in client.shop.orders.list_indexes()]
            ['_id_', 'customer_1']
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        return self._port.flow(self._list_indexes_flow(session, comment))

    async def _list_indexes_flow(self, session: _ClientSession | None, comment: Any) -> Any:
        from mangonel.bson.codec_options import CodecOptions
        from mangonel.bson.son import SON

        codec = _core.Codec(CodecOptions(SON))
        command = {"listIndexes": self._name, "cursor": {}}
        try:
            batch = cursor_of(
                await self._port.arun(self._listing(command, session=session, comment=comment, codec=codec))
            )
        except OperationFailure as error:
            if error.code != NAMESPACE_NOT_FOUND:
                raise
            batch = None
        return self._command_cursor_class(
            self, batch, codec, comment=comment, session=session_of(self._port, session)
        )

    def index_information(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[dict[str, Any]]:
        """Return the options of each index by name; `key` is a list of (key, direction) pairs.

        Arguments and errors as for `list_indexes`.

        Example:
            >>> name = client.shop.orders.create_index("customer")
            >>> client.shop.orders.index_information()[name]["key"]
            [('customer', 1)]
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._index_information_flow(session, comment))

    async def _index_information_flow(self, session: _ClientSession | None, comment: Any) -> dict[str, Any]:
        cursor = await self._list_indexes_flow(session, comment)
        information: dict[str, Any] = {}
        indexes = await cursor._to_list_flow(None)
        with ReplyTo("listIndexes"):
            for index in indexes:
                described = {**index, "key": list(index["key"].items())}
                information[described.pop("name")] = described
        return information

    # A service beside the server maintains search indexes, so each command may return before its work is done.

    def list_search_indexes(
        self,
        name: str | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[dict[str, Any]]]:
        """Return a cursor over the descriptions of the search indexes.

        Args:
            name: return only the index with this name.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the aggregate command.

        Raises:
            ConfigurationError: `kwargs` contain fields that the method sets itself. Nothing was sent.
            OperationFailure: the deployment has no search service, or refused for another reason.
            AutoReconnect: the connection broke twice. A read is safe to repeat.

        Example:
            >>> [index["name"] for index in client.shop.orders.list_search_indexes()]
            ['default']
        """
        self = self._limited(timeout_ms)
        for option in ("aggregate", "pipeline"):
            if option in kwargs:
                raise ConfigurationError(f"the {option} option cannot be specified as a keyword argument")
        stage = {} if name is None else {"name": name}
        command: dict[str, Any] = {
            "aggregate": self._name,
            "pipeline": [{"$listSearchIndexes": stage}],
            "cursor": {},
            **kwargs,
        }
        size = command.pop("batchSize", None)
        if size is not None:
            command["cursor"] = {**command["cursor"], "batchSize": size}
        return self._port.flow(self._list_search_indexes_flow(command, session, comment, size or 0))

    async def _list_search_indexes_flow(
        self, command: dict[str, Any], session: _ClientSession | None, comment: Any, size: int
    ) -> Any:
        explicit = session_of(self._port, session)
        if comment is not None:
            command["comment"] = comment
        operation = self._operation(
            command, kind=KIND_READ, reading=READ_BATCH, session=explicit, codec=PLAIN
        )
        batch = await self._port.arun(operation)
        return self._command_cursor_class(
            self, cursor_of(batch), PLAIN, size, comment=comment, session=explicit
        )

    def create_search_index(
        self,
        model: Mapping[str, Any] | SearchIndexModel,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[str]:
        """Request a search index and return its name. It is built in the background.

        Args:
            model: a SearchIndexModel, or its arguments as a mapping.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command.

        Raises:
            OperationFailure: the deployment has no search service, or refused for another reason.
            AutoReconnect: the connection broke. Whether the index is being built is not known.

        Example:
            >>> client.shop.orders.create_search_index({"definition": {"mappings": {"dynamic": True}}})
            'default'
        """
        self = self._limited(timeout_ms)
        from mangonel.operations import SearchIndexModel

        if not isinstance(model, SearchIndexModel):
            if not isinstance(model, Mapping) or "definition" not in model:
                raise TypeError(
                    f"expected a SearchIndexModel, or a mapping with its definition, got {model!r}"
                )
            model = SearchIndexModel(**model)
        return self._port.flow(self._create_search_index_flow(model, session, comment, kwargs))

    async def _create_search_index_flow(
        self, model: SearchIndexModel, session: _ClientSession | None, comment: Any, options: dict[str, Any]
    ) -> str:
        names = await self._create_search_indexes_flow([model], session, comment, options)
        with ReplyTo("createSearchIndexes"):
            return names[0]

    def create_search_indexes(
        self,
        models: list[SearchIndexModel],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[list[str]]:
        """Request several search indexes with one command; return their names.

        Arguments as for `create_search_index`, with `models`, a list of SearchIndexModel; the same errors.

        Example:
            >>> model = SearchIndexModel({"mappings": {"dynamic": True}}, name="text")
            >>> client.shop.orders.create_search_indexes([model])
            ['text']
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._create_search_indexes_flow(models, session, comment, kwargs))

    async def _create_search_indexes_flow(
        self,
        models: list[SearchIndexModel],
        session: _ClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> list[str]:
        from mangonel.operations import SearchIndexModel

        expect("models", models, Iterable, "a list of SearchIndexModel")
        for model in models:
            if not isinstance(model, SearchIndexModel):
                raise TypeError(f"{model!r} is not an instance of SearchIndexModel")
        command = {
            "createSearchIndexes": self._name,
            "indexes": [model.document for model in models],
            **options,
        }
        reply = await self._administer_flow(
            command, session=session, comment=comment, takes_write_concern=False
        )
        with ReplyTo("createSearchIndexes"):
            return [index["name"] for index in reply["indexesCreated"]]

    def drop_search_index(
        self,
        name: str,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[None]:
        """Drop a search index. Does nothing if the collection does not exist.

        Arguments as for `create_search_index`, with the `name` of the index; the same errors.

        Example:
            >>> client.shop.orders.drop_search_index("default")
        """
        self = self._limited(timeout_ms)
        command = {"dropSearchIndex": self._name, "name": name, **kwargs}
        return self._port.flow(self._search_index_flow(command, session, comment))

    def update_search_index(
        self,
        name: str,
        definition: Mapping[str, Any],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[None]:
        """Replace the definition of a search index. The old one stays in use until the new one is built.

        Arguments as for `create_search_index`, with `name` and `definition`; the same errors.

        Example:
            >>> client.shop.orders.update_search_index("default", {"mappings": {"dynamic": False}})
        """
        self = self._limited(timeout_ms)
        command = {"updateSearchIndex": self._name, "name": name, "definition": definition, **kwargs}
        return self._port.flow(self._search_index_flow(command, session, comment))

    async def _search_index_flow(
        self, command: dict[str, Any], session: _ClientSession | None, comment: Any
    ) -> None:
        await self._administer_flow(
            command,
            session=session,
            comment=comment,
            allowable_errors=MISSING_IS_FINE,
            takes_write_concern=False,
        )
