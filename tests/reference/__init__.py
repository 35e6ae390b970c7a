"""Reference twins: the slow obvious Python beside each Rust algorithm."""
