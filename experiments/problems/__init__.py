"""Word problems that someone typed, and real ones: what a model that was trained on composed ones makes of them."""
