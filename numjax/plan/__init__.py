"""Plans training steps for devices that this machine does not have: `--mode=compile`."""
