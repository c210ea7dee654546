"""Questions about measures that someone typed: what a model that was trained on composed ones makes of them."""
