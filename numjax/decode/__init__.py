"""Generation: jitted decoders, and the grammar that masks them. Device half."""
