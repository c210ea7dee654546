"""numjax.main on a mesh where processes take turns, as they may on a torus; `processes_test.py` runs it."""

from __future__ import annotations

import numpy as np
from jax.experimental import mesh_utils


def in_turn(sizes, devices, **_) -> np.ndarray:
    """The first device of each process, then the second of each, and so on."""
    first: dict[int, int] = {}
    for device in devices:
        first[device.process_index] = min(device.id, first.get(device.process_index, device.id))
    order = sorted(devices, key=lambda device: (device.id - first[device.process_index], device.process_index))
    return np.asarray(order).reshape(sizes)


if __name__ == "__main__":
    mesh_utils.create_device_mesh = in_turn
    from numjax.main import entry

    entry()
