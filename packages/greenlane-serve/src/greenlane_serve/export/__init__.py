"""The lanes of the settings for a fleet: what other programs read, made from the same layout as `greenlane serve`.

fleet              which servers there are, what one front may give each, and what it makes of each setting
haproxy            the file of a HAProxy before many `greenlane serve`: one queue, gates, priorities
nginx              what nginx can do of it
envoy              what Envoy can do of it
kubernetes         a Deployment, Service and autoscaler for each group of workers
routes             HTTPRoutes before them, and where a gateway takes another lane than the first that matches
"""
