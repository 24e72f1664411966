"""Uses that type checkers must report; each such line says so in a comment. Not run."""

# ruff: noqa: B015, B018
from __future__ import annotations

from samples.accounts import Account
from samples.blog import Post, User
from samples.customers import Strict

from mangonel.odm import F, inc, push

User(name=1, email="x")  # wrong
User(nme="x", email="x")  # wrong
User.agee  # wrong
User.age > "x"  # wrong
Strict.n.in_(["x"])  # wrong
inc(User.name)  # wrong
push(Post.tags, 3)  # wrong
F(User.age).set("x")  # wrong
User.find(~(User.age > 1))  # wrong
-Post.created_at  # wrong
Account.id == "x"  # wrong
