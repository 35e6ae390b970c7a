"""Scenarios that ship in the wheel, with the services that they start.

pricing        a Flask application that knows nothing of Greenlane: `greenlane demo pricing` serves it in five ways
upstream       the service it calls: answers after 100 ms
pricing.toml   its scenario: what is started, what is asked of it; the lab runs it
halves         a WSGI application whose requests say what they cost
mixed.toml     its scenario: `greenlane lab run mixed`
"""
