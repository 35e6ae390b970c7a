"""The commands of this distribution; `greenlane` finds them by its entry points."""
