"""Training steps planned for devices that are not there: `--mode=compile`."""
