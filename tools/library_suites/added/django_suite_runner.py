"""Runs django-mongodb-backend's tests with a site whose key the backend supports, and writes a JUnit file."""

from typing import Any

from django.conf import settings
from xmlrunner.extra.djangotestrunner import XMLTestRunner


class SuiteRunner(XMLTestRunner):
    """Replaces the site 1, which Django's test program sets."""

    def setup_databases(self, **kwargs: Any) -> Any:
        settings.SITE_ID = "000000000000000000000001"
        settings.SILENCED_SYSTEM_CHECKS = [*settings.SILENCED_SYSTEM_CHECKS, "sites.E101"]
        return super().setup_databases(**kwargs)
