"""Django: its pool of two connections; a request keeps its connection until it ends."""

import os
from urllib.parse import urlsplit

import django
import httpx
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.urls import path

url = urlsplit(os.environ["DATABASE_URL"])
database = {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": url.username, "HOST": url.hostname,
    "PORT": url.port, "OPTIONS": {"pool": {"min_size": 2, "max_size": 2, "timeout": 20}},
}  # fmt: skip
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DATABASES={"default": database})
django.setup()
http = httpx.Client(timeout=20)


def invoice(request):
    with connection.cursor() as cursor:  # here
        cursor.execute("select 7")  # here
    return HttpResponse(http.get(os.environ["UPSTREAM"]).text)  # here


urlpatterns = [path("invoice", invoice)]
app = get_wsgi_application()
