"""An admin application of a program's models: lists, forms, history and files, mounted in any web framework.

    from mangonel.admin import Admin
    admin = Admin(User, Post, sessions=sessions, allowed=is_editor, login=check_password)
    app.mount("/admin", admin.asgi())

See docs/odm/admin.md.
"""

from __future__ import annotations

from mangonel.admin._shown import Shown
from mangonel.admin._site import Admin

__all__ = ["Admin", "Shown"]
