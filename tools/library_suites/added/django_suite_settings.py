"""Settings of django-mongodb-backend's tests."""

import os

from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig
from django.contrib.flatpages.apps import FlatPagesConfig
from django.contrib.redirects.apps import RedirectsConfig
from django.contrib.sites.apps import SitesConfig
from mongodb_settings import *  # noqa: F403
from mongodb_settings import DEFAULT_AUTO_FIELD

TEST_RUNNER = "suite_runner.SuiteRunner"
TEST_OUTPUT_DIR, TEST_OUTPUT_FILE_NAME = os.path.split(os.environ["SUITE_REPORT"])

# Django's own applications require integer keys, which the backend lacks; its projects override that in subclasses.
for config in (
    AuthConfig,
    ContentTypesConfig,
    FlatPagesConfig,
    RedirectsConfig,
    SimpleAdminConfig,
    SitesConfig,
):
    config.default_auto_field = DEFAULT_AUTO_FIELD
