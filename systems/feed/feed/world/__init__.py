"""The made-up world that the feed serves: items, users, first-level models, and the utility that only it knows."""
