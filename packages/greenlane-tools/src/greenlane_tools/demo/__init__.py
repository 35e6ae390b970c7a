"""The pricing service, in the wheel: what `greenlane demo pricing` serves in five ways.

pricing        the service: a Flask application that knows nothing of Greenlane
upstream       the service it calls: answers after 100 ms
pricing.toml   the scenario: what is started, what is asked of it; the lab runs it
"""
