"""Pictures of curves: bands stay on the axis, and lines can be told apart."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from colangevin.lab.claims.curves import band, say_bands
from colangevin.lab.experiments.paths import path_findings


@pytest.mark.parametrize(("scale", "ends"), [("log", (0.1, 9.0)), ("linear", (-4.35, 13.45))])
def test_a_band_on_a_logarithmic_axis_ends_at_the_runs(scale, ends):
    figure = Figure()
    axis = figure.subplots()
    axis.set_yscale(scale)
    band(axis, [0, 1], [[1.0, 3.0, np.nan], [0.1, 9.0, np.nan]], color="black")
    assert (axis.dataLim.y0, axis.dataLim.y1) == pytest.approx(ends)
    say_bands(figure)
    assert ("lowest and the highest run" in figure.get_suptitle()) == (scale == "log")


def test_no_two_lines_of_a_panel_look_alike():
    own = {"losses": [[2.0, 1.0], [2.1, 0.9]]}
    axis = Figure().subplots()
    path_findings.draw_lines(axis, dict.fromkeys(("whole", *map(str, range(1, 17))), own))
    looks = [(to_hex(line.get_color()), line._dash_pattern) for line in axis.lines]
    assert len({str(look) for look in looks}) == len(axis.lines) == 17
    assert to_hex(axis.lines[0].get_color()) == "#000000"
