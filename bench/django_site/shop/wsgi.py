"""What gunicorn serves."""

import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
if interval_ms := os.environ.get("PRICING_SWITCH_INTERVAL_MS"):  # the contender gthread-64-0.5ms
    sys.setswitchinterval(float(interval_ms) / 1000)

application = get_wsgi_application()
