"""The blocking face."""

from typing import Any, TypedDict

from mangonel import MongoClient
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.collection import Collection
from mangonel.read_preferences import ReadPreference


class Order(TypedDict):
    _id: int
    total: int


client = MongoClient("mongodb://localhost")
reveal_type(client)  # R: MongoClient[dict[str, Any]]
reveal_type(client.shop)  # R: Database[dict[str, Any]]
reveal_type(client["shop"].orders)  # R: Collection[dict[str, Any]]
orders: Collection = client.shop.orders

reveal_type(orders.find_one({"_id": 1}))  # R: dict[str, Any] | None
reveal_type(orders.find_one(1, {"total": 1}, sort=[("total", -1)]))  # R: dict[str, Any] | None
reveal_type(orders.find({}, limit=3))  # R: Cursor[dict[str, Any]]
reveal_type(orders.find().sort("total", -1).limit(3))  # R: Cursor[dict[str, Any]]
reveal_type([order["total"] for order in orders.find()])  # R: list[Any]
for order in orders.find({"total": {"$gt": 5}}):
    reveal_type(order)  # R: dict[str, Any]
with orders.find() as cursor:
    reveal_type(cursor)  # R: Cursor[dict[str, Any]]
    reveal_type(cursor.next())  # R: dict[str, Any]
    reveal_type(cursor[0])  # R: dict[str, Any]
    reveal_type(cursor[1:3])  # R: Cursor[dict[str, Any]]
    reveal_type(cursor.to_list())  # R: list[dict[str, Any]]
    reveal_type(cursor.to_json())  # R: bytes
    reveal_type(cursor.close())  # R: None
reveal_type(orders.find_raw_batches({}).next())  # R: bytes
reveal_type(next(orders.find_raw_batches({})))  # R: bytes

reveal_type(orders.insert_one({"total": 1.5}))  # R: InsertOneResult
reveal_type(orders.insert_one({"total": 1.5}).inserted_id)  # R: Any
reveal_type(orders.insert_many([{}, {}]).inserted_ids)  # R: list[Any]
reveal_type(orders.insert_one(RawBSONDocument(b"")))  # R: InsertOneResult
reveal_type(orders.update_one({}, {"$set": {"total": 2}}).modified_count)  # R: int
reveal_type(orders.delete_many({}).deleted_count)  # R: int
reveal_type(orders.aggregate([{"$match": {}}]))  # R: CommandCursor[dict[str, Any]]
for group in orders.aggregate([]):
    reveal_type(group)  # R: dict[str, Any]
reveal_type(orders.count_documents({}))  # R: int
reveal_type(orders.distinct("total"))  # R: list[Any]
reveal_type(client.shop.command("ping"))  # R: dict[str, Any]
reveal_type(client.shop.list_collection_names())  # R: list[str]

# Other document classes.
raw: MongoClient[RawBSONDocument] = MongoClient(document_class=RawBSONDocument)
reveal_type(raw.shop.orders.find_one())  # R: RawBSONDocument | None
reveal_type(MongoClient(document_class=RawBSONDocument).shop)  # R: Database[RawBSONDocument]
options = CodecOptions(document_class=RawBSONDocument)
reveal_type(orders.with_options(options).find_one())  # R: RawBSONDocument | None
reveal_type(orders.with_options(read_preference=ReadPreference.NEAREST))  # R: Collection[dict[str, Any]]
reveal_type(client.get_database("shop", codec_options=options).orders)  # R: Collection[RawBSONDocument]
reveal_type(client.shop.get_collection("orders"))  # R: Collection[dict[str, Any]]
reveal_type(client.shop.command("ping", codec_options=options))  # R: RawBSONDocument
reveal_type(client.shop.cursor_command("find", codec_options=options))  # R: CommandCursor[RawBSONDocument]

with MongoClient() as other:
    reveal_type(other)  # R: MongoClient[dict[str, Any]]

# What a collection holds.
typed: Collection[Order] = MongoClient[Any]("mongodb://localhost").shop.orders
found = typed.find_one({"_id": 1})
if found is not None:
    reveal_type(found["total"])  # R: int
    found["totals"]  # E: TypedDict "Order" has no key "totals"
typed.insert_one({"_id": 1})  # E: expected "Order | RawBSONDocument"

# Errors.
wrong: Collection[Order] = client.shop.orders  # E: Incompatible types in assignment
orders.find_one({}, limit="3")  # E: Argument "limit" to "find_one" of "Collection" has incompatible type "str"
orders.find({}, sorting=1)  # E: Unexpected keyword argument "sorting"
orders.find("total")  # E: Argument 1 to "find" of "Collection" has incompatible type "str"
orders.insert_one([1])  # E: Argument 1 to "insert_one" of "Collection" has incompatible type "list[int]"
orders.insert_two({})  # E: "Collection[dict[str, Any]]" not callable
client.shop.orders()  # E: "Collection[dict[str, Any]]" not callable
client.shop.with_options(codec_options=1)  # E: No overload variant of "with_options"
