"""The first use of a model with encrypted fields, before its annotations were evaluated."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from mangonel.server import Server

pytest.importorskip("pymongocrypt")

# How a program may come by the mark, in annotations that are texts.
MODELS = {
    "by name": """
from mangonel.odm import Encrypted
class Person(Document):
    ssn: Annotated[str, Encrypted(key="people")]
""",
    "by another name": """
from mangonel.odm import Encrypted as Hidden
class Person(Document):
    ssn: Annotated[str, Hidden(key="people")]
""",
    "by the module": """
import mangonel.odm as odm
class Person(Document):
    ssn: Annotated[str, odm.Encrypted(key="people")]
""",
    "made by a function": """
import mangonel.odm as odm
def hidden(): return odm.Encrypted(key="people")
class Person(Document):
    ssn: Annotated[str, hidden()]
""",
    "of an embedded document": """
from mangonel.odm import Embedded, Encrypted as Hidden
class Card(Embedded):
    ssn: Annotated[str, Hidden(key="people")]
class Person(Document):
    card: Card | None = None
""",
    "of a subclass": """
from mangonel.odm import Encrypted as Hidden
class Person(Document):
    __root__ = True
    name: str = ""
class Member(Person):
    ssn: Annotated[str, Hidden(key="people")]
""",
    "of a subclass that is defined after the first use": """
from mangonel.odm import Encrypted as Hidden
class Person(Document):
    __root__ = True
    name: str = ""
Person.find().count()
class Member(Person):
    ssn: Annotated[str, Hidden(key="people")]
""",
    "of another model of the collection": """
from mangonel.odm import Encrypted as Hidden
class Person(Document):
    name: str = ""
Person.find().count()
class Member(Document):
    __collection__ = "person"
    ssn: Annotated[str, Hidden(key="people")]
""",
}
PROGRAM = """
from __future__ import annotations
import sys
from typing import Annotated
from mangonel import MongoClient, monitoring
from mangonel.errors import ConfigurationError
from mangonel.odm import Document, connect

class Sent(monitoring.CommandListener):
    def started(self, event):
        print("sent", event.command)
    def succeeded(self, event):
        pass
    failed = succeeded

connect(client=MongoClient(sys.argv[1], event_listeners=[Sent()]))
{models}
WHERE = {{"ssn": "457-55-5462"}}
try:
    {first}
except ConfigurationError as error:
    print("refused", error)
"""
FIRST = {
    "find": "Person.find(WHERE).all()",
    "count": "Person.find(WHERE).count()",
    "update": "Person.find({}).update({'$set': WHERE})",
    "delete": "Person.find(WHERE).delete()",
    "aggregate": "list(Person.find(WHERE).aggregate([{'$limit': 1}]))",
}


@pytest.mark.enough(2)
@pytest.mark.enough(4)
@pytest.mark.parametrize(("marked", "first"), list(zip(MODELS, itertools.cycle(FIRST), strict=False)))
def test_first_command_of_a_process_holds_no_plain_value(server: Server, marked: str, first: str) -> None:
    program = PROGRAM.format(models=MODELS[marked], first=FIRST[first])
    run = [sys.executable, "-c", program, server.uri.replace("/?", "/encrypted_first?")]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "457-55-5462" not in ended.stdout
    assert "refused cannot use" in ended.stdout


def test_first_pipeline_to_another_model_holds_no_plain_value(server: Server) -> None:
    models = (
        MODELS[next(iter(MODELS))]
        + """
class Plain(Document):
    name: str = ""
"""
    )
    union = "[{'$unionWith': {'coll': 'person', 'pipeline': [{'$match': WHERE}]}}]"
    program = PROGRAM.format(models=models, first=f"Plain.find().aggregate({union})")
    run = [sys.executable, "-c", program, server.uri.replace("/?", "/encrypted_first?")]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "457-55-5462" not in ended.stdout
    assert "refused cannot lead from Plain to Person" in ended.stdout
