"""Programs that nobody here wrote, run as they are, under the recording, and with permits: what they say is the same."""
