"""Pages of the service, for people: the feed as its user sees it, and where its requests' time goes. Nothing is fetched
from elsewhere: a policy in each page's head forbids it too.
"""
