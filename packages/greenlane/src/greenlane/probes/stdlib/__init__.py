"""Probes for the standard library's blocking calls, one kind a file; `probes.threads` puts them together."""
