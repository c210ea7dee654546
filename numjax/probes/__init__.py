"""What a small network can read off frozen vectors of numbers: the probes of Wallace et al. (2019)."""
