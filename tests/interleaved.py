"""Runs numjax.main on a mesh that alternates between processes, as on a torus. `processes_test.py` runs it."""

from __future__ import annotations

import numpy as np
from jax.experimental import mesh_utils


def interleave_devices(sizes, devices, **_) -> np.ndarray:
    """Orders the devices: the first of each process, then the second of each, and so on."""
    first_ids: dict[int, int] = {}
    for device in devices:
        first_ids[device.process_index] = min(device.id, first_ids.get(device.process_index, device.id))
    order = sorted(devices, key=lambda device: (device.id - first_ids[device.process_index], device.process_index))
    return np.asarray(order).reshape(sizes)


if __name__ == "__main__":
    mesh_utils.create_device_mesh = interleave_devices
    from numjax.main import entry

    entry()
