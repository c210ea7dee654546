"""The machine of a run: processes, meshes, files, logs."""
