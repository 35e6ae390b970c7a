"""The pricing service, and the comparison of five ways to serve it (`greenlane demo pricing`).

pricing        the service: a Flask application that knows nothing of Greenlane
upstream       the service it calls: answers after 100 ms
pricing.toml   the scenario: what is started, what is asked of it; the lab runs it
mixes          other shares of the same endpoints
alone          what the endpoints' own functions take, without a server around
options        the command line
conclusion     the one sentence
strips, page   what is drawn of it
command        all of it in turn
"""
