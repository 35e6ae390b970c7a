"""Real servers, real databases: Greenlane under what people run."""
