"""`manage.py fill`: tables, and rows enough for queries to do something."""

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from shop.models import Bike, Ride, Tariff

CITIES = ("Lyon", "Graz", "Porto", "Gent")


class Command(BaseCommand):
    """`manage.py fill`."""

    help = "Makes the tables and fills them: 4 tariffs, 200 bikes, 2,000 rides."

    def handle(self, *args: object, **options: object) -> None:
        """Make and fill the tables, once."""
        call_command("migrate", run_syncdb=True, verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
        tariffs = [Tariff.objects.create(city=city, cents_per_minute=20 + n) for n, city in enumerate(CITIES)]
        Bike.objects.bulk_create(Bike(code=f"bike-{n:04d}", tariff=tariffs[n % 4]) for n in range(200))
        bikes = list(Bike.objects.all())
        Ride.objects.bulk_create(
            Ride(bike=bikes[n % 200], minutes=3 + n * 7 % 50, cents=100 + n * 37 % 2000) for n in range(2_000)
        )
