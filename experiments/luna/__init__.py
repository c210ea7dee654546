"""The experiments of LUNA (Han et al. 2022); README.md says what each runs and what came out."""
