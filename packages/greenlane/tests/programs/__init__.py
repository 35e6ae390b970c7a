"""Programs that nobody here wrote: stock, under the recording, and with permits they say the same."""
