"""pricingservice: a Flask application of a hundred endpoints that mix CPU work and I/O. It knows nothing of Greenlane.

application   `offers.pricing.application:app`, what a server serves
view          one endpoint of the table as a view: what a request says, its computing, its asking
"""
