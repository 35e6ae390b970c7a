"""A minute of load and faults."""
