"""What Greenlane changes in a process, and that it puts it back: docs/guest.md."""
