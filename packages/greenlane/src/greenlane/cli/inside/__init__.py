"""`greenlane inside`: what comes into a process: `command` prints, `starting` starts hosts, `served` looks inside."""
