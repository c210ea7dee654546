"""Generation on the device: jitted decoders, and the grammar that masks their tokens."""
