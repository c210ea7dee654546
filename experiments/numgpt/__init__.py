"""The experiments of NumGPT (Jin et al. 2021); README.md says what each runs and what came out."""
