"""A Django project with ORM and templates: bikes, tariffs, rides and their receipts."""
