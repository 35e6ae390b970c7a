"""Django: sixteen threads keep a connection each, of which the database allows this service four."""

import os
from urllib.parse import urlsplit

import django
import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.urls import path

url = urlsplit(os.environ["DATABASE_URL"])
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as made:
    made.execute("drop role if exists shop")
    made.execute("create role shop login connection limit 4")
database = {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "shop", "HOST": url.hostname,
    "PORT": url.port, "CONN_MAX_AGE": None,
}  # fmt: skip
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DATABASES={"default": database})
django.setup()


def user(request):
    with connection.cursor() as cursor:  # here
        cursor.execute("select pg_sleep(0.02)")
    return HttpResponse("user")


urlpatterns = [path("user", user)]
app = get_wsgi_application()
