"""The endpoints: the pricing demo's, as a Django project would have them."""

import http.client
import os
from itertools import repeat

from django.db.models import Avg, Count, Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from shop.models import Bike, Ride, Tariff

_HOST, _, _PORT = os.environ.get("PRICING_UPSTREAM", "127.0.0.1:7001").partition(":")
_ITERATIONS_PER_MS = int(os.environ.get("PRICING_ITERATIONS_PER_MS", "11000"))


def bikes(request: HttpRequest) -> HttpResponse:
    """A query, then three times 1 ms of CPU and an upstream call of 100 ms."""
    bike = Bike.objects.select_related("tariff").get(code="bike-0017")
    for _ in range(3):
        _burn_ms(1)
        _ask_upstream()
    return JsonResponse({"offer": bike.code, "cents": bike.tariff.cents_per_minute * 12})


def quote(request: HttpRequest) -> HttpResponse:
    """A query, then `?ms=` milliseconds of CPU."""
    tariff = Tariff.objects.get(city="Graz")
    return JsonResponse({"cents": _burn_ms(float(request.GET.get("ms", 40))) + tariff.cents_per_minute})


def receipt(request: HttpRequest) -> HttpResponse:
    """Sixty rides with their bikes, by a template."""
    rides = Ride.objects.select_related("bike__tariff").order_by("-cents")[:60]
    return render(request, "receipt.html", {"rides": rides})


def report(request: HttpRequest) -> HttpResponse:
    """Sums by city and by bike, in the database."""
    cities = Ride.objects.values("bike__tariff__city").annotate(rides=Count("id"), cents=Sum("cents"))
    bikes_ = Ride.objects.values("bike__code").annotate(minutes=Avg("minutes")).order_by("-minutes")[:50]
    return JsonResponse({"cities": list(cities), "bikes": list(bikes_)})


def _burn_ms(milliseconds: float) -> int:
    state = 1
    for _ in repeat(None, int(milliseconds * _ITERATIONS_PER_MS)):
        state = (state * 31 + 7) & 0xFFFF
    return state


def _ask_upstream() -> bytes:
    connection = http.client.HTTPConnection(_HOST, int(_PORT), timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()
