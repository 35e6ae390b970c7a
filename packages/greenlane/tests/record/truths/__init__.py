"""Programs whose jobs know where their time went, and what the recording says of them."""
