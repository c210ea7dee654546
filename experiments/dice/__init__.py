"""The experiments of DICE (Sundararaman et al. 2020); README.md says what each runs and what came out."""
