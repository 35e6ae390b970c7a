"""One file per host program; each is imported by its name."""
