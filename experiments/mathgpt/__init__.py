"""What the paper of MathGPT measured, and what its mechanism promises."""
