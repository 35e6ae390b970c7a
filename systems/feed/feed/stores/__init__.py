"""Where the feed's data lie: items in a Redis Cluster, histories and feeds in a Redis of their own."""
