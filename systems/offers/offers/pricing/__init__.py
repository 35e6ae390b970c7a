"""pricingservice: a Flask application of a hundred endpoints that mix CPU work and I/O. It knows nothing of Greenlane.

application   `offers.pricing.application:app`, what a server serves
request       what a request says: region, id, w
view          one endpoint of the table as a view
steps         one request's computing and asking
asking        upstreams, asked over kept connections
"""
