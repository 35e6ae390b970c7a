"""Django with its ORM and templates, on the database of DATABASE_URL."""

import os
from urllib.parse import urlsplit

import django
from django.conf import settings

url = urlsplit(os.environ["DATABASE_URL"])
if url.scheme == "sqlite":
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": url.path,
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
else:
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": 60,
    }
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": database},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    LOGGING_CONFIG=None,
    ROOT_URLCONF=__name__,
    SECRET_KEY="of this test",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    USE_TZ=True,
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402
from django.http import HttpResponse, JsonResponse  # noqa: E402
from django.template import engines  # noqa: E402
from django.urls import path  # noqa: E402

from tests.system.apps.work import Failure, burn  # noqa: E402


class Visit(models.Model):
    who = models.IntegerField(db_index=True)

    class Meta:
        app_label = "visits"


page = engines["django"].from_string(
    '{"n": {{ n }}, "effects": {{ visits|length }}, "sum": {{ total }}}{% for row in rows %}{% endfor %}'
)


def heavy(request, n):
    with transaction.atomic():
        Visit.objects.create(who=n)
        total = burn(6)
    total = burn(6)
    body = page.render({"n": n, "visits": list(Visit.objects.filter(who=n)), "total": total, "rows": range(200)})
    return HttpResponse(body, content_type="application/json")


def light(request, n):
    with connection.cursor() as cursor:
        cursor.execute("select %s * %s", [n, n])
        return JsonResponse({"n": n, "square": cursor.fetchone()[0]})


def fail(request, n):
    with transaction.atomic():
        Visit.objects.create(who=n)
        raise Failure


def total(request):
    return JsonResponse({"total": Visit.objects.count()})


urlpatterns = [
    path("heavy/<int:n>", heavy),
    path("light/<int:n>", light),
    path("fail/<int:n>", fail),
    path("total", total),
]


def prepare() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Visit)


application = get_wsgi_application()
