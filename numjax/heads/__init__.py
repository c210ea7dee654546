"""What a hidden state predicts, one kind a file, each with a Linen module named `Head`."""
