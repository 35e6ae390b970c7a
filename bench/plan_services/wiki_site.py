"""django-wiki as a site: `gunicorn wiki_site:app`. Each process makes a database at the import, in this folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

_PAGES: Final = 40
_WIKI: Final = ("django_nyt", "mptt", "sekizai", "sorl.thumbnail", "wiki", "wiki.plugins.macros", "wiki.plugins.links")
_CONTEXT: Final = ("contrib.auth.context_processors.auth", "template.context_processors.request",
                   "template.context_processors.debug", "contrib.messages.context_processors.messages")  # fmt: skip
_DATABASE: Final = Path(__file__).with_name(f"wiki-{os.getpid()}.sqlite3")
_TEXT: Final = "\n\n".join(
    f"## Part {part}\n\nA *paragraph* with **marks**, `code` and [a link](/page{part}/).\n\n- one\n- two\n- three"
    for part in range(12)
)


_APPS: Final = ("admin", "auth", "contenttypes", "sessions", "sites", "messages", "staticfiles", "humanize")
_SETTINGS: Final[dict[str, Any]] = {
    "SECRET_KEY": "of a benchmark", "ALLOWED_HOSTS": ["*"], "SITE_ID": 1, "ROOT_URLCONF": __name__, "USE_TZ": True,
    "INSTALLED_APPS": [*(f"django.contrib.{app}" for app in _APPS), *_WIKI],
    "MIDDLEWARE": [f"django.contrib.{each}Middleware" for each in (
        "sessions.middleware.Session", "auth.middleware.Authentication", "messages.middleware.Message"
    )],
    "TEMPLATES": [{
        "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["sekizai.context_processors.sekizai", *map("django.{}".format, _CONTEXT)]},
    }],
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(_DATABASE)}},
    "STATIC_URL": "/static/", "DEFAULT_AUTO_FIELD": "django.db.models.AutoField", "WIKI_ACCOUNT_HANDLING": False,
}  # fmt: skip


def _fill() -> None:
    from wiki.models import URLPath

    call_command("migrate", verbosity=0)
    root = URLPath.create_root(title="Wiki", content=_TEXT)
    for page in range(_PAGES):
        URLPath.create_urlpath(root, f"page{page}", title=f"Page {page}", content=_TEXT)


settings.configure(**_SETTINGS)
django.setup()
_fill()

from django.urls import include, path  # noqa: E402  # Django's settings must be there before.

urlpatterns = [path("notifications/", include("django_nyt.urls")), path("", include("wiki.urls"))]
app = get_wsgi_application()
