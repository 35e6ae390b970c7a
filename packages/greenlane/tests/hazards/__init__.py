"""What real threads survive, they survive with permits."""
