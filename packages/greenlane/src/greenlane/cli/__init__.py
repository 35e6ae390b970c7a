"""The command line, one file a command; `main.main` is the entry point. The only package that prints."""
