"""What comes into a serving process: `starting` starts hosts, `served` looks inside one, `rows` counts."""
