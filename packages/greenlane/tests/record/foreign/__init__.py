"""Applications that nobody here wrote, as they come from PyPI, recorded unchanged."""
