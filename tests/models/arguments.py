"""Source text of argument values, by the name of the parameter: valid values, and values that fit no parameter.

Each text is evaluated once for each driver, with `pymongo`, `bson` and `gridfs` as the names of that driver's packages.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["MODELS", "argument", "filled", "has_values"]

# One value in this many is of `WRONG`.
ONCE_IN = 12
WRONG = [
    "None", "0", "-1", "''", "[]", "{}", "True", "1", "1.5", "'x'", "b'x'", "2**31", "2**63", "2**64", "-2**63",
    "float('nan')", "()", "['x']", "[None]", "{'a': 1}", "[('a', 1)]", "('a', 1)", "'a.b'", "'$x'", "'a\\0b'", "{1: 2}",
    "{'x'}", "object()", "dict", "bson.int64.Int64(5)", "bson.son.SON([('a', 1)])", "bson.objectid.ObjectId('0' * 24)",
    "pymongo.WriteConcern(1)", "iter([{'a': 1}])", "lambda: 1", "datetime.datetime(2020, 1, 1)", "'\\udc80'",
    "bson.decimal128.Decimal128('1')", "range(2)",
]  # fmt: skip

IDS = ["1", "2", "3", "4", "5", "6", "7", "'x'", "None", "1.0", "bson.int64.Int64(2)", "{'k': 1}"]
SCALARS = [
    "1", "2", "0", "-1", "'a'", "'A'", "'b'", "''", "None", "True", "1.5", "2.0", "2**40", "-2**63", "float('inf')",
    "'ä\\U0001f600'", "b'raw'", "bson.binary.Binary(b'x', 5)", "bson.objectid.ObjectId('5' * 24)",
    "datetime.datetime(2020, 1, 2, 3, 4, 5, 678912)", "datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)",
    "bson.decimal128.Decimal128('1.50')", "bson.int64.Int64(1)", "bson.regex.Regex('^a', 'i')",
    "re.compile('^a', re.I | re.M)", "bson.timestamp.Timestamp(5, 1)", "bson.timestamp.Timestamp(0, 0)",
    "bson.min_key.MinKey()", "bson.max_key.MaxKey()", "bson.code.Code('x')", "bson.code.Code('x', {'a': 1})",
    "bson.dbref.DBRef('other', 1)", "bson.dbref.DBRef('other', 1, 'db', extra=2)", "uuid.UUID(int=5)", "[]",
    "['x', 'y']", "('x', 1)", "[{'f': 1}, None]", "{}", "{'f': 1}", "{'f': {'g': [1, 2]}}",
    "bson.son.SON([('z', 1), ('a', 2)])", "bson.raw_bson.RawBSONDocument(bson.encode({'f': 1}))",
    "collections.OrderedDict(f=1)", "types.MappingProxyType({'f': 1})", "numbers.Integral", "decimal.Decimal('1')",
    "object()", "2**64", "{1: 2}", "{'$f': 1}", "{'f.g': 1}", "'a\\0b'", "{'a\\0b': 1}", "{'x'}",
    "datetime.date(2020, 1, 1)", "enum.IntEnum('E', 'X').X", "'\\udc80'", "bytearray(b'x')", "memoryview(b'x')",
    "array.array('d', [1])", "fractions.Fraction(1, 2)", "datetime.datetime(1, 1, 1)", "datetime.datetime.max",
]  # fmt: skip
FIELDS = ["a", "name", "tags", "e", "b", "when", "loc", ""]

FILTERS = [
    "{}", "{'_id': 1}", "{'a': 1}", "{'a': {'$gt': 1}}", "{'tags': 'x'}", "{'a': {'$in': [1, 2, None]}}", "{'e.f': 1}",
    "{'$or': [{'a': 1}, {'name': 'A'}]}", "{'name': re.compile('^a', re.I)}", "{'name': bson.regex.Regex('a')}",
    "{'$nope': 1}", "{'a': {'$nope': 1}}", "bson.son.SON([('a', 1)])", "{'_id': {'$gte': 2}}", "{'_id': 99}",
    "bson.raw_bson.RawBSONDocument(bson.encode({'a': 1}))", "{'when': {'$lt': datetime.datetime(2021, 1, 1)}}",
    "{'$expr': {'$gt': ['$a', '$$low']}}", "{'$where': 'this.a == 1'}", "{'_id': bson.objectid.ObjectId('5' * 24)}",
    "collections.OrderedDict(a=1)", "types.MappingProxyType({'a': 1})", "{'a': object()}", "{'': 1}",
    "{'_id': {'$in': [1, 2, 3]}}", "{'$text': {'$search': 'a'}}", "{'a': {'$exists': False}}", "{'$comment': 'x'}",
]  # fmt: skip
UPDATES = [
    "{'$set': {'a': 5}}", "{'$inc': {'a': 1}}", "{'$unset': {'a': ''}}", "{'$push': {'tags': 'z'}}", "{'$nope': 1}",
    "{'$set': {'tags.$[t]': 'q'}}", "{'$setOnInsert': {'b': 1}}", "[{'$set': {'b': '$a'}}]",
    "{'$rename': {'a': 'b'}}", "{'$set': {'_id': 99}}", "{'a': 1}", "{}", "[]", "{'$set': {}}",
    "{'$set': {'a': 1}, 'b': 2}", "{'$min': {'a': 0}}", "[{'$set': {'b': '$$v'}}]",
    "{'$set': {'a': datetime.datetime(2020, 1, 1)}}", "bson.son.SON([('$set', {'a': 7})])", "({'$set': {'a': 1}},)",
    "{'$set': {'a': object()}}", "bson.raw_bson.RawBSONDocument(bson.encode({'$set': {'a': 8}}))",
    "{'$set': {'': 1}}", "{'$set': {'a': 2**64}}", "{'b': 1, '$set': {'a': 1}}", "[{}]", "{'$mul': {'name': 2}}",
]  # fmt: skip
STAGES = [
    "{'$match': {'a': 1}}", "{'$sort': {'_id': -1}}", "{'$limit': 2}", "{'$skip': 1}", "{'$project': {'a': 1}}",
    "{'$group': {'_id': '$a', 'n': {'$sum': 1}}}, {'$sort': {'_id': 1}}", "{'$unwind': '$tags'}", "{'$count': 'n'}",
    "{'$lookup': {'from': 'other', 'localField': 'a', 'foreignField': '_id', 'as': 'o'}}", "{'$nope': 1}", "{}",
    "{'$out': 'made'}", "{'$merge': {'into': 'made'}}", "{'$merge': 'other'}", "{'$facet': {'n': [{'$count': 'n'}]}}",
    "{'$unionWith': 'other'}", "{'$match': {'$expr': {'$gt': ['$a', '$$low']}}}", "{'$replaceWith': {'v': '$a'}}",
    "bson.son.SON([('$match', {'a': 2})])", "{'$documents': [{'x': 1}]}", "{'$addFields': {'z': object()}}", "None",
    "{'$limit': 0}", "{'$out': {'db': db.name, 'coll': 'made'}}",
]  # fmt: skip
MODELS = [
    "pymongo.InsertOne({document})", "pymongo.UpdateOne({filter}, {update})", "pymongo.UpdateMany({filter}, {update})",
    "pymongo.UpdateOne({filter}, {update}, upsert={upsert})", "pymongo.ReplaceOne({filter}, {replacement})",
    "pymongo.ReplaceOne({filter}, {replacement}, upsert={upsert}, hint={hint})", "pymongo.DeleteOne({filter})",
    "pymongo.DeleteMany({filter}, collation={collation})", "pymongo.DeleteOne({filter}, hint={hint})",
    "pymongo.UpdateMany({filter}, {update}, array_filters={array_filters}, hint={hint})",
    "pymongo.UpdateOne({filter}, {update}, collation={collation}, sort={sort})",
]  # fmt: skip
INDEXES = [
    "pymongo.IndexModel({keys})", "pymongo.IndexModel({keys}, unique={upsert})",
    "pymongo.IndexModel({keys}, name={name})", "pymongo.IndexModel({keys}, expireAfterSeconds=5, sparse=True)",
    "pymongo.IndexModel({keys}, collation={collation})",
]  # fmt: skip
BOOLS = ["True", "False", "None", "1", "0"]
KEYS = [
    "'a'", "[('a', 1)]", "[('a', 1), ('name', -1)]", "[('name', 'text')]", "[('loc', '2dsphere')]", "{'a': 1}",
    "['a', ('name', -1)]", "[('$**', 1)]", "[('a', 'hashed')]", "[('a', 5)]", "{'b': -1, 'a': 1}", "'tags'", "['e.f']",
    "bson.son.SON([('b', 1)])", "[('_id', 1)]", "[('_id', -1)]", "(('a', -1),)", "[('a', 1), ('a', 1)]", "'$x'",
    "[('a', None)]", "[(1, 1)]", "[('a', 1.0)]", "[('a', bson.int64.Int64(1))]",
]  # fmt: skip
SORTS = [
    "[('a', 1)]", "[('a', -1), ('_id', 1)]", "'a'", "{'a': 1}", "['a', 'name']", "[('_id', pymongo.DESCENDING)]", "[]",
    "[('a', 2)]", "{'a': -1, 'name': 1}", "[('a', 'x')]", "('a', 1)", "bson.son.SON([('name', 1), ('_id', 1)])",
    "[('$natural', -1)]", "[('a', {'$meta': 'textScore'})]", "(('a', 1),)", "{}", "[('a', 1), 'name']",
]  # fmt: skip
HINTS = [
    "'_id_'", "[('_id', 1)]", "{'_id': 1}", "'nope'", "[('a', 1)]", "'a_1'", "'$natural'", "[('$natural', -1)]",
    "bson.son.SON([('_id', 1)])", "['_id']", "None", "[]", "''", "{}", "[('_id', 1), ('a', 1)]",
]  # fmt: skip
COLLATIONS = [
    "{'locale': 'en', 'strength': 2}", "pymongo.collation.Collation('en', strength=2)", "{'locale': 'simple'}", "None",
    "{'locale': 'nope'}", "pymongo.collation.Collation('fr', caseLevel=True)", "{}", "{'strength': 1}",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "5", "100", "-1", "-2", "2**31 - 1", "True", "1.0", "bson.int64.Int64(2)"]
TIMES = ["60000", "100000", "0", "None", "90000.0", "-1", "2**31", "bson.int64.Int64(60000)"]
COMMENTS = [
    "'why'",
    "{'k': 1}",
    "1",
    "''",
    "None",
    "['x']",
    "bson.objectid.ObjectId('5' * 24)",
    "{}",
    "False",
]
LETS = [
    "{'low': 1}",
    "{'v': 'w', 'low': 0}",
    "{}",
    "None",
    "{'1x': 2}",
    "{'low': '$a'}",
    "bson.son.SON([('low', 2)])",
]
CODECS = [
    "bson.codec_options.CodecOptions()", "bson.codec_options.CodecOptions(document_class=bson.son.SON)",
    "bson.codec_options.CodecOptions(tz_aware=True)", "bson.codec_options.CodecOptions(uuid_representation=4)",
    "bson.codec_options.CodecOptions(bson.raw_bson.RawBSONDocument)", "None",
    "bson.codec_options.CodecOptions(datetime_conversion=bson.DatetimeConversion.DATETIME_AUTO)",
    "bson.codec_options.CodecOptions(datetime_conversion=3)", "bson.codec_options.CodecOptions(uuid_representation=3)",
    "bson.codec_options.CodecOptions(document_class=collections.OrderedDict)",
    "bson.codec_options.CodecOptions(unicode_decode_error_handler='ignore')",
    "bson.codec_options.CodecOptions(tz_aware=True, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))",
    "bson.codec_options.CodecOptions(type_registry=bson.codec_options.TypeRegistry(fallback_encoder=str))",
]  # fmt: skip
NAMES = [
    "'things'",
    "'other'",
    "'fresh'",
    "'a.b'",
    "'nope'",
    "''",
    "'$x'",
    "'.a'",
    "'a..b'",
    "'a.'",
    "'system.x'",
    "5",
]
READ_CONCERN_LEVELS = ("local", "majority", "snapshot", "available", "nope")
FILE_IDS = ["1", "2", "'x'", "99", "None", "bson.objectid.ObjectId('5' * 24)"]
FILE_NAMES = ["'f'", "'g'", "'nope'", "''", "None"]
TOKENS = ["None", "{'_data': '82'}", "{}", "{'_data': 5}"]

VALID: dict[str, list[str]] = {
    "filter": FILTERS,
    "update": UPDATES,
    "replacement": [
        "{}", "{'a': 9}", "{'_id': 1, 'a': 1}", "{'_id': 98}", "{'$set': {'a': 1}}", "{'a': object()}", "[]",
    ],
    "projection": [
        "{'a': 1}", "['a', 'name']", "{'a': 0}", "{'_id': 0}", "[]", "{}", "('a',)", "{'tags': {'$slice': 1}}",
        "None", "{'tags': {'$elemMatch': {'$eq': 'x'}}}", "{'a': 1, 'b': 0}", "{'x': '$a'}", "{'a'}",
        "{'a': True, '_id': False}", "bson.son.SON([('a', 1)])", "['a', 1]", "{'name': 1, 'a': object()}",
    ],
    "sort": SORTS,
    "key_or_list": SORTS,
    "direction": ["1", "-1", "None", "'text'", "2"],
    "skip": NUMBERS,
    "limit": NUMBERS,
    "batch_size": NUMBERS,
    "batchSize": NUMBERS,
    "hint": HINTS,
    "index": HINTS,
    "collation": COLLATIONS,
    "comment": COMMENTS,
    "let": LETS,
    "writeConcern": ["{'w': 1}", "{'w': 'majority'}", "{'w': 'nope'}", "{}"],
    "readConcern": ["{'level': 'local'}", "{'level': 'nope'}", "{}"],
    "definition": ["{'mappings': {}}"],
    "model": ["{'definition': {'mappings': {}}}", "pymongo.operations.SearchIndexModel({'mappings': {}}, 'n')"],
    "array_filters": [
        "[{'t': 'x'}]", "[{'t': 'x'}, {'u': 1}]", "[]", "[{}]", "None", "({'t': 'x'},)", "[{'t': object()}]",
    ],
    "return_document": ["pymongo.ReturnDocument.AFTER", "pymongo.ReturnDocument.BEFORE", "True", "False"],
    "max_time_ms": TIMES,
    "maxTimeMS": TIMES,
    "max_await_time_ms": TIMES,
    "maxAwaitTimeMS": TIMES,
    "max_commit_time_ms": TIMES,
    "cursor_type": ["pymongo.CursorType.NON_TAILABLE", "pymongo.CursorType.EXHAUST", "pymongo.CursorType.TAILABLE"],
    "max_scan": ["None", "5", "0"],
    "min": ["[('_id', 2)]", "[('a', 1)]", "None", "{'_id': 2}"],
    "max": ["[('_id', 5)]", "[('a', 2)]", "None", "{'_id': 5}"],
    "spec": ["[('_id', 2)]", "[('_id', 5)]", "[('a', 2)]", "[]", "[('_id',)]", "[('_id', 2), ('a', 1)]"],
    "code": ["'this.a == 1'", "bson.code.Code('this.a > x', {'x': 1})", "bson.code.Code('true')", "''"],
    "mask": ["16", "2", "64", "128", "4", "0", "34"],
    "key": ["'a'", "'tags'", "'e.f'", "'_id'", "''", "'nope'", "'$a'", "'when'"],
    "keys": KEYS,
    "index_or_name": [
        "'a_1'", "[('a', 1)]", "'a'", "'*'", "'_id_'", "{'a': 1}", "['a']", "'nope'", "[('a', 1), ('name', -1)]",
    ],
    "new_name": ["'renamed'", *NAMES],
    "name": NAMES,
    "name_or_collection": ["'things'", "things", "'nope'", "other", "db.fresh", *NAMES],
    "name_or_database": ["db", "db.name"],
    "command": [
        "'ping'", "{'ping': 1}", "{'find': 'things', 'filter': {'a': 1}}", "{'count': 'things'}", "'nope'", "{}",
        "bson.son.SON([('count', 'things'), ('query', {'a': 1})])", "{'insert': 'things', 'documents': [{'_id': 50}]}",
        "{'distinct': 'things', 'key': 'a'}", "{'aggregate': 'things', 'pipeline': [], 'cursor': {}}", "'count'",
        "{'listCollections': 1, 'nameOnly': True}", "{'update': 'things', 'updates': [{'q': {}, 'u': {'$nope': 1}}]}",
        "{'aggregate': 'things', 'pipeline': [], 'cursor': {'batchSize': 2}}", "{'listIndexes': 'things'}", "''",
        "{'findAndModify': 'things', 'query': {'_id': 1}, 'update': {'$set': {'a': 3}}}", "{'create': 'things'}",
        "{'find': 'things', 'batchSize': 2}", "bson.raw_bson.RawBSONDocument(bson.encode({'ping': 1}))",
    ],
    "value": ["1", "'things'", "1.0", "None", "{'a': 1}"],
    "allowable_errors": ["None", "[59]", "['no such command']", "[]", "[re.compile('such')]"],
    "write_concern": [
        "pymongo.WriteConcern(1)", "pymongo.WriteConcern('majority')", "pymongo.WriteConcern(1, wtimeout=1000)",
        "None", "pymongo.WriteConcern(1, j=True)", "pymongo.WriteConcern('nope')", "pymongo.WriteConcern(2)",
        "pymongo.WriteConcern()", "pymongo.WriteConcern(0)",
    ],
    "read_concern": [
        *(f"pymongo.read_concern.ReadConcern('{level}')" for level in READ_CONCERN_LEVELS),
        "pymongo.read_concern.ReadConcern()", "None", "pymongo.read_concern.ReadConcern('linearizable')",
    ],
    "read_preference": [
        *(f"pymongo.ReadPreference.{mode}" for mode in ("PRIMARY", "SECONDARY_PREFERRED", "NEAREST")),
        "pymongo.ReadPreference.PRIMARY_PREFERRED", "None", "pymongo.read_preferences.Nearest(max_staleness=90)",
        "pymongo.read_preferences.Nearest(tag_sets=[{'dc': 'x'}, {}])",
    ],
    "codec_options": CODECS,
    "full_document": ["'updateLookup'", "'default'", "'whenAvailable'", "'required'", "'nope'", "None"],
    "full_document_before_change": ["'off'", "'whenAvailable'", "'required'", "'nope'", "None"],
    "resume_after": TOKENS,
    "start_after": TOKENS,
    "start_at_operation_time": ["None", "bson.timestamp.Timestamp(2**31, 1)"],
    "dbref": [f"bson.dbref.DBRef({each})" for each in ("'things', 1", "'other', 1, db.name", "'a', 1, 'nope'")],
    # Of a collection to create.
    "capped": BOOLS,
    "size": ["4096", "0", "-1", "4096.0", "None"],
    "validator": ["{'a': {'$type': 'int'}}", "{'$jsonSchema': {'required': ['a']}}", "{}", "{'$nope': 1}"],
    "validationLevel": ["'strict'", "'moderate'", "'off'", "'nope'"],
    "validationAction": ["'error'", "'warn'", "'nope'"],
    "viewOn": ["'things'", "'nope'", "''"],
    "timeseries": ["{'timeField': 't'}", "{'timeField': 't', 'metaField': 'm'}", "{}"],
    "clusteredIndex": ["{'key': {'_id': 1}, 'unique': True}", "{'key': {'_id': 1}}", "True"],
    "expireAfterSeconds": ["5", "0", "3600.0", "'off'", "-1", "None"],
    "changeStreamPreAndPostImages": ["{'enabled': True}", "{'enabled': False}", "{}"],
    "encryptedFields": ["None"],
    "encrypted_fields": ["None"],
    # Of an index.
    "partialFilterExpression": ["{'a': {'$gt': 1}}", "{}", "{'a': {'$nope': 1}}"],
    "commitQuorum": ["'majority'", "1", "'nope'", "0"],
    "bucketSize": ["5", "None"],
    "wildcardProjection": ["{'a': 1}", "{'a': 0}", "{}"],
    "index_name": ["'n'"],
    # Of GridFS.
    "file_id": FILE_IDS,
    "filename": FILE_NAMES,
    "new_filename": FILE_NAMES,
    "source": ["b'hello world'", "io.BytesIO(b'hello')", "b''", "'text'", "bytearray(b'xyz')", "memoryview(b'xyz')"],
    "data": ["b'hello world'", "io.BytesIO(b'hello')", "b''", "'text'", "bytearray(b'xyz')", "memoryview(b'xyz')"],
    "sequence": ["[b'a', b'bc']", "[]", "['t']", "(b'x',)", "io.BytesIO(b'a\\nb')"],
    "lines": ["[b'a']"],
    "destination": ["k(io.BytesIO())", "k(io.StringIO())"],
    "chunk_size_bytes": ["4", "1", "1024", "0", "None"],
    "chunk_size": ["4", "1", "1024", "0", "4.0"],
    "chunkSize": ["4", "1024"],
    "metadata": ["{'k': 1}", "{}", "None", "bson.son.SON([('k', 1)])"],
    "_id": FILE_IDS,
    "encoding": ["'utf-8'", "'latin-1'", "'nope'"],
    "content_type": ["'text/plain'", "None"],
    "contentType": ["'text/plain'"],
    "revision": ["-1", "0", "1", "5", "-3"],
    "version": ["-1", "0", "1", "5", "-3", "None"],
    "document_or_id": ["1", "{'filename': 'f'}", "'x'", "None", "{'_id': 2}"],
    # Of a file.
    "size_of_a_read": ["-1", "0", "1", "5", "100", "None", "-5"],
    "pos": ["0", "1", "5", "100", "-1", "-5"],
    "whence": ["0", "1", "2", "3"],
    "length": ["None", "1", "2", "100", "0", "-1"],
    # Of sessions.
    "causal_consistency": BOOLS,
    "snapshot": BOOLS,
    "default_transaction_options": [
        "None", "pymongo.client_session.TransactionOptions()",
        "pymongo.client_session.TransactionOptions(write_concern=pymongo.WriteConcern('majority'))",
        "pymongo.client_session.TransactionOptions(max_commit_time_ms=60000)",
        "pymongo.client_session.TransactionOptions(pymongo.read_concern.ReadConcern('snapshot'))",
    ],
    "operation_time": ["bson.timestamp.Timestamp(5, 1)", "None"],
    "cluster_time": ["{'clusterTime': bson.timestamp.Timestamp(5, 1)}", "{}", "None"],
    "default": ["'d'", "None", "db.name"],
}  # fmt: skip
FLAGS = (
    "upsert ordered bypass_document_validation bypassDocumentValidation allow_disk_use allowDiskUse no_cursor_timeout "
    "allow_partial_results oplog_replay return_key show_record_id unique sparse background hidden dropTarget nameOnly "
    "authorizedCollections scandata full check check_exists show_expanded_events fields new end_session"
)
VALID |= dict.fromkeys(FLAGS.split(), BOOLS)


def _documents() -> st.SearchStrategy[str]:
    """Return source text of documents to store, of any BSON types and some that have none."""
    field = st.tuples(st.sampled_from(FIELDS), st.sampled_from(SCALARS)).map(
        lambda pair: f"{pair[0]!r}: {pair[1]}"
    )
    key = st.sampled_from([f"'_id': {each}" for each in IDS] * 2 + [""])
    return st.tuples(key, st.lists(field, max_size=2)).map(
        lambda parts: "{" + ", ".join(each for each in (parts[0], *parts[1]) if each) + "}"
    )


def filled(template: str) -> st.SearchStrategy[str]:
    """Return a template with a value in each pair of braces."""
    names = [part.partition("}")[0] for part in template.split("{")[1:]]
    return st.tuples(*(argument(name) for name in names)).map(
        lambda values: template.format(**dict(zip(names, values, strict=True)))
    )


def _listed(parts: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=least, max_size=3).map(lambda texts: f"[{', '.join(texts)}]")


_made: dict[str, st.SearchStrategy[str]] = {}


def argument(name: str) -> st.SearchStrategy[str]:
    """Return source text of values for a parameter of this name: any value, if the name says nothing."""
    if name not in _made:
        _made[name] = st.deferred(lambda: _argument(name))
    return _made[name]


def has_values(name: str) -> bool:
    """Return whether `argument` has values for a parameter of this name."""
    return _right(name) is not None


def _argument(name: str) -> st.SearchStrategy[str]:
    right = _right(name)
    if right is None:
        return st.sampled_from(WRONG)
    wrong = st.sampled_from(WRONG)
    return st.integers(0, ONCE_IN - 1).flatmap(lambda number: wrong if number == ONCE_IN - 1 else right)


def _right(name: str) -> st.SearchStrategy[str] | None:
    if name == "document":
        return _documents()
    if name == "documents":
        return _listed(_documents(), 1)
    if name == "pipeline":
        return _listed(st.sampled_from(STAGES))
    if name in ("requests", "models"):
        return _listed(st.sampled_from(MODELS).flatmap(filled), 1)
    if name == "indexes":
        return _listed(st.sampled_from(INDEXES).flatmap(filled), 1)
    return st.sampled_from(VALID[name]) if name in VALID else None
