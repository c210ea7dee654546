"""The machine under a run: processes, meshes, files, logs."""
