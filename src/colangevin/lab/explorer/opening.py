"""Recorded runs: what each preset shows at its end, played in ten seconds before it goes live.

``scripts/explorer_openings.py`` writes them. A record has frames as the page gets them.
"""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from typing import Any

FRAMES = 50
SIDE = 40
"""Points along a side of a recorded region."""
SMALL_EVERY = 3
"""Every third frame has the small regions of all seeds, and the last one."""
FINE, COARSE = 24, 10
"""Shades of a recorded region; of small regions, bars and lines of the network."""


def packed_record(name: str) -> bytes:
    """The record of a preset as it lies in the package: JSON, compressed.

    Raises:
        FileNotFoundError: if it has none.
    """
    return files(__package__).joinpath("openings", f"{name}.json.gz").read_bytes()


def read(name: str) -> dict[str, Any]:
    """The record of a preset: preset, spec, seeds and frames."""
    found: dict[str, Any] = json.loads(gzip.decompress(packed_record(name)))
    return found


def record(name: str) -> dict[str, Any]:
    """Train a preset to its end and record it; early frames are closer together."""
    from colangevin.lab.explorer import readings
    from colangevin.lab.explorer.presets import PRESETS
    from colangevin.lab.explorer.runs import Training
    from colangevin.lab.explorer.spec import parse

    preset = PRESETS[name]
    training = Training(parse(preset.spec))
    bounds, layer = readings.bounds_of(training.points), readings.first_layer(training)
    shown = readings.MEAN if preset.mean else 0
    frames = []
    for index in range(FRAMES):
        while training.steps < round(preset.steps * (index / (FRAMES - 1)) ** 1.5):
            training.step()
        small = index % SMALL_EVERY == 0 or index == FRAMES - 1
        runs = readings.frame(training, bounds, shown, layer, SIDE, all_seeds=small)
        frames.append(
            {
                "state": "recorded",
                "message": "",
                "steps": training.steps,
                "rate": 0.0,
                "member": shown,
                "layer": layer,
                "changes": [],
                "runs": {letter: _coarse(run) for letter, run in runs.items()},
            }
        )
    return {
        "preset": name,
        "spec": training.spec.plain(),
        "seeds": training.spec.seeds,
        "frames": frames,
    }


def _coarse(run: dict[str, Any]) -> dict[str, Any]:
    """A frame of a run with fewer shades, which compress better."""
    small = [_shades(own, COARSE) for own in run["small"]]
    network = [{**own, "values": _shades(own["values"], COARSE)} for own in run["network"]]
    layers = {
        title: {**own, "counts": _shades(own["counts"], COARSE)}
        for title, own in run["layers"].items()
    }
    region = _shades(run["region"], FINE)
    return {**run, "region": region, "small": small, "network": network, "layers": layers}


def _shades(packed: str, levels: int) -> str:
    """Fewer shades.

    Example:
        >>> list(base64.b64decode(_shades(base64.b64encode(bytes([0, 3, 128, 255])).decode(), 3)))
        [0, 0, 128, 255]
    """
    top = levels - 1
    values = [round(round(value / 255 * top) / top * 255) for value in base64.b64decode(packed)]
    return base64.b64encode(bytes(values)).decode()


def written(content: dict[str, Any]) -> bytes:
    """The bytes of a record's file; the same for the same content."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), 9, mtime=0)
