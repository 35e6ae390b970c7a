"""A Django project in one file, with one line of Greenlane at its end."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

from greenlane.hosts.wsgi import Greenlane


def heavy(request):
    return HttpResponse(f"{sum(n * n % 97 for n in range(1_000_000))}\n")


urlpatterns = [path("heavy", heavy)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of an example")
application = Greenlane(get_wsgi_application())
