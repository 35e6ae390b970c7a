"""pricingservice: a Flask application of a hundred endpoints that mix CPU work and I/O. It knows nothing of Greenlane.

application   `offers.pricing.application:app`, what a server serves; one endpoint of the table as a view
"""
