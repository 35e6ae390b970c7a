"""The page: orders on their way to each merchant, live."""
