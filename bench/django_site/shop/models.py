"""What the shop keeps."""

from django.db import models


class Tariff(models.Model):
    """A city's price."""

    city = models.CharField(max_length=40, unique=True)
    cents_per_minute = models.IntegerField()


class Bike(models.Model):
    """One that can be rented."""

    code = models.CharField(max_length=20, unique=True)
    tariff = models.ForeignKey(Tariff, on_delete=models.PROTECT)


class Ride(models.Model):
    """One that has been paid."""

    bike = models.ForeignKey(Bike, on_delete=models.PROTECT)
    minutes = models.IntegerField()
    cents = models.IntegerField()
