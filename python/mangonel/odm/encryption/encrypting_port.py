"""The port of a model with encrypted fields: it encrypts them in every command of the model's collection.

It wraps the client's port, so every operation of the mapper goes through it. Models without encrypted fields never use
it. Must not know: libmongocrypt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel._faces.encrypting import FieldPort
from mangonel._shared.collection.encrypted import known_fields, stored_fields_flow
from mangonel.bson.binary import UUID_SUBTYPE, Binary
from mangonel.errors import ConfigurationError
from mangonel.odm._registry import models
from mangonel.odm.encryption.commands import Analysis
from mangonel.odm.encryption.elements import Pending, document_of, put_together, take_apart
from mangonel.odm.encryption.maps import encrypted_fields_map
from mangonel.odm.model.encrypted import ALGORITHMS, QUERYABLE, Encrypted, Node, models_of
from mangonel.odm.model.encrypted_trees import encrypted_tree

if TYPE_CHECKING:
    from mangonel.encryption._values import ValueCipher

# The position of the key's id in an encrypted value: after length, subtype and kind.
_ID = slice(6, 22)

_REMEDY = (
    'connect(..., auto_encryption_opts=AutoEncryptionOpts(kms_providers, "keys.vault", bypass_query_analysis=True)) '
    "or connect(..., encryption=ClientEncryption(...), aencryption=AsyncClientEncryption(...))"
)


class FieldCipher:
    """Encrypts a model's fields in commands, and decrypts replies."""

    encrypts = True

    def __init__(self, analysis: Analysis, values: ValueCipher, client: Any) -> None:
        self._analysis = analysis
        self._values = values
        self._client = client
        # Namespaces known to be collections of Queryable Encryption.
        self._made: set[str] = set()

    @property
    def is_queryable(self) -> bool:
        """Whether the collection has fields of Queryable Encryption."""
        return self._analysis.is_queryable

    async def encrypt_flow(self, database: str, command: bytes) -> bytes | None:
        """Return the command with its fields encrypted, or None if there is nothing to encrypt.

        Raises:
            UnsupportedOption: it needs information that an encrypted field does not reveal. Nothing was sent.
            ConfigurationError: the collection does not use Queryable Encryption. Nothing was sent.
            EncryptionError: the reason is its `cause`. Nothing was sent.
        """
        found = self._analysis.look(command)
        if found is None:
            return None
        group, places = found
        if self._analysis.needs_own_kind(group):
            await self._check_flow(database)
        for pending in places.pending:
            await self._value_flow(pending)
        return put_together(group)[1]

    async def _value_flow(self, pending: Pending) -> None:
        from mangonel.encryption._values import ValueOptions

        rule, key = pending.rule, pending.key
        if isinstance(key, str) and rule.algorithm in QUERYABLE:
            key = await self.id_flow(key)
        is_name = isinstance(key, str)
        options = ValueOptions(
            ALGORITHMS[rule.algorithm],
            None if is_name else getattr(key, "bytes", key),
            key if is_name else None,
            pending.query,
            rule.contention_factor,
            None if rule.range is None else _core.encode(rule.range.document),
        )
        is_range = pending.query == "range"
        what = "explicit_encrypt_expression" if is_range else "explicit_encrypt"
        done = await self._values.encrypt_flow(what, document_of("v", pending.value), options)
        pending.done = take_apart(done).items[0][1]

    async def _check_flow(self, database: str) -> None:
        """Refuse a collection in which the server would not find equal values, and would keep their tokens.

        Raises:
            ConfigurationError: it does not use Queryable Encryption, or does not exist.
        """
        name = self._analysis.collection
        namespace = f"{database}.{name}"
        if namespace in self._made:
            return
        source = self._client.get_database(database)
        if known_fields(source, name, None) is None and await stored_fields_flow(source, name) is None:
            model = self._analysis.name
            raise ConfigurationError(
                f"cannot use {model}, which has fields of Queryable Encryption: expected {namespace} to be made for "
                f"them, got no such collection; call {model}.create_collection() first"
            )
        self._made.add(namespace)

    async def id_flow(self, name: str) -> bytes:
        """Return the id of a key, as Queryable Encryption requires; a value encrypted with the key contains it."""
        from mangonel.encryption._values import ValueOptions

        options = ValueOptions(ALGORITHMS["random"], None, name, None, None, None)
        done = await self._values.encrypt_flow("explicit_encrypt", _core.encode({"v": ""}), options)
        data: bytes = take_apart(done).items[0][1][1]
        return data[_ID]

    async def decrypt_flow(self, reply: bytes) -> bytes | None:
        """Return the reply with its fields decrypted, or None if there is nothing to decrypt.

        Raises:
            EncryptionError: the reason is its `cause`. The server did run the command.
        """
        return await self._values.decrypt_flow(reply)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def tree_of_collection(collection: str, first: Any = None) -> Node | None:
    """Return the encrypted fields of all models of a collection, including `first`."""
    made: Node | None = None
    for model in models_of(collection, first):
        found = encrypted_tree(model)
        if found is not None:
            if made is None:
                made = Node()
            made.merge(found, model.__name__)
    return made


def database_of(connection: Any, model: Any, is_async: bool) -> Any:
    """Return the database for a model's collection: the client's own if no field is encrypted.

    Raises:
        ConfigurationError: no key vault is configured that could encrypt.
    """
    database = connection.database(is_async)
    name = model.__collection_name__()
    # Other models of the collection: documents of several models may be stored by one command.
    tree = tree_of_collection(name, model)
    if tree is None and not _leads_to_encrypted(model):
        return database
    from mangonel.encryption._values import cipher_of, options_of

    client = connection.clients.get(is_async)
    options = options_of(client)
    if options is not None and options._analyses:
        if tree is not None:
            _check_maps(options, f"{connection.name}.{name}", tree, model)
        return database
    values = cipher_of(client, connection.clients.encryption.get(is_async))
    if tree is not None and tree.is_queryable and (options is None or options._bypass_auto_encryption):
        raise ConfigurationError(
            f"cannot use {model.__name__}, which has fields of Queryable Encryption: its commands must name them "
            "to the server; use connect(..., auto_encryption_opts=AutoEncryptionOpts(..., bypass_query_analysis=True))"
        )
    if values is None:
        if tree is None:
            return database
        owner, own = next(
            (each, own) for each in models_of(name, model) if (own := encrypted_tree(each)) is not None
        )
        first = next(path for path, _ in own.rules())
        where = "" if owner is model else f" in {owner.__module__}.{owner.__qualname__}, stored in {name} too"
        raise ConfigurationError(
            f"cannot use {model.__name__}, whose {first} is encrypted{where}: expected keys, got none; use {_REMEDY}"
        )
    twin = _twin(client, Analysis(model.__name__, name, tree, tree_of_collection), values)
    return twin.get_database(connection.name, codec_options=database.codec_options)


async def encrypted_fields_flow(model: Any, collection: Any) -> dict[str, Any]:
    """Return the encrypted fields to create a model's collection with.

    Raises:
        EncryptionError: a key that the models name is not in the key vault.
        ValueError: the server would not accept these fields together, or a field has no single BSON type.
    """
    cipher, found = collection._port.fields, models_of(collection.name, model)
    rules: dict[str, Encrypted] = {}
    for tree in filter(None, map(encrypted_tree, found)):
        # Models of one family have the same fields.
        rules.update((path, node.rule) for path, node in tree.rules() if node.rule is not None)
    users: dict[Any, str] = {}
    for path, rule in rules.items():
        if rule.algorithm not in QUERYABLE:
            raise ValueError(
                f"cannot create the collection of {model.__name__}: MongoDB allows no "
                f'"{rule.algorithm}" field, such as {path}, beside fields of Queryable Encryption'
            )
        key = rule.key() if callable(rule.key) else rule.key
        other = users.setdefault(key, path)
        if other != path:
            raise ValueError(
                f"cannot create the collection of {model.__name__}: expected a key of its own for each field of "
                f"Queryable Encryption, got the same for {other} and {path}"
            )
    ids = {key: Binary(await cipher.id_flow(key), UUID_SUBTYPE) for key in users if isinstance(key, str)}
    [fields] = encrypted_fields_map(collection.database.name, *found, key_ids=ids).values()
    return {"fields": list({field["path"]: field for field in fields["fields"]}.values())}


def collection_for(connection: Any, model: Any, collection: Any, stages: Any) -> Any:
    """Return the collection to run a pipeline on: another one if it leads from a plain model to encrypted documents.

    Args:
        connection: the model's connection.
        model: the model of the query.
        collection: the model's collection.
        stages: the stages of the pipeline.

    Raises:
        ConfigurationError: no key vault is configured that could encrypt.
    """
    if isinstance(collection._port, FieldPort):
        return collection
    texts: set[str] = set()
    _take_texts(stages, texts)
    reached = [one for one in models if one.__is_document__ and one.__collection_name__() in texts]
    marked = next((one for one in reached if tree_of_collection(one.__collection_name__()) is not None), None)
    if marked is None:
        return collection
    from mangonel.encryption._values import cipher_of, options_of

    is_async = collection._port.is_async
    client = connection.clients.get(is_async)
    options = options_of(client)
    if options is not None and options._analyses:
        return collection
    values = cipher_of(client, connection.clients.encryption.get(is_async))
    if values is None:
        raise ConfigurationError(
            f"cannot lead from {model.__name__} to {marked.__name__}, which has encrypted fields: expected keys, "
            f"found none; use {_REMEDY}"
        )
    twin = _twin(client, Analysis(model.__name__, collection.name, None, tree_of_collection), values)
    return twin.get_database(connection.name).get_collection(
        collection.name,
        codec_options=collection.codec_options,
        read_preference=collection.read_preference,
        write_concern=collection.write_concern,
        read_concern=collection.read_concern,
    )


def _twin(client: Any, analysis: Analysis, values: ValueCipher) -> Any:
    """Return the client with another port."""
    twin = object.__new__(type(client))
    twin.__dict__.update(vars(client))
    twin._port = FieldPort(client._core, client._port, FieldCipher(analysis, values, client))
    return twin


def _take_texts(value: Any, texts: set[str]) -> None:
    """Add all texts in a pipeline: they include the names of its collections."""
    if isinstance(value, str):
        texts.add(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            _take_texts(part, texts)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _take_texts(part, texts)


def _leads_to_encrypted(model: Any) -> bool:
    """Whether a lookup through this model's references leads to documents with encrypted fields."""
    return any(
        getattr(field.target, "__is_document__", False) and encrypted_tree(field.target) is not None
        for field in model.__plan__.fields.values()
        if field.target is not None
    )


def _check_maps(options: Any, namespace: str, tree: Node, model: Any) -> None:
    """Refuse a client that encrypts commands itself but does not know all fields.

    Raises:
        ConfigurationError: it does not.
    """
    known = _paths_of((options._schema_map or {}).get(namespace) or {})
    fields = ((options._encrypted_fields_map or {}).get(namespace) or {}).get("fields") or ()
    known |= {field["path"] for field in fields}
    missing = [path for path, _ in tree.rules() if path not in known]
    if missing:
        raise ConfigurationError(
            f"cannot leave {model.__name__}.{missing[0]} to automatic encryption: expected it in schema_map or "
            f"encrypted_fields_map of {namespace!r}, as schema_map() and encrypted_fields_map() make them; or set "
            "bypass_query_analysis=True"
        )


def _paths_of(schema: Any, before: str = "") -> set[str]:
    found: set[str] = set()
    for name, rule in (schema.get("properties") or {}).items():
        if "encrypt" in rule:
            found.add(before + name)
        found |= _paths_of(rule, f"{before}{name}.")
    return found
