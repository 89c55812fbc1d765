"""Words around the figures: how to read them."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, name: str, text: str) -> None:
    r"""Put a text into a page, between the comments "NAME: begin" and "NAME: end".

    Example:
        >>> import tempfile
        >>> page = Path(tempfile.mkdtemp()) / "page.md"
        >>> _ = page.write_text("<!-- table: begin -->\nold\n<!-- table: end -->\n")
        >>> put(page, "table", "new\n")
        >>> page.read_text().splitlines()[1]
        'new'
    """
    start, end = (f"<!-- {name}: {word} -->\n" for word in ("begin", "end"))
    before, rest = page.read_text(encoding="utf-8").split(start)
    page.write_text(before + start + text + end + rest.split(end)[1], encoding="utf-8")


INTRODUCTION = """# Benchmarks

What a step of `CoLA` costs next to the optimizers that people use now. This page is written by
the program from the record of one run, [bench.json]({json});
`make bench` runs it anew, and `cola bench` runs the same works on any machine in less than five
minutes on two cores.
"""

READING = """## How to read it

- **Time** is one step, the best of several rounds in which all contestants of a work take turns,
  so that all of them meet the same moods of the machine. Only ratios within one work are
  comparable; times of another day or machine are not. `~` marks a time that was scaled up from
  one smaller matrix because the whole would take too long.
- **Ratio** is the time over that of the row named above the table, or else in the cell.
- **State** and **scratch** are floats per weight: what the optimizer keeps between steps beyond
  weight and gradient, and what torch allocates within a step at most, with buffers that are kept
  for the next step. Workspaces inside BLAS and LAPACK are not counted.
- **Violation** is the largest entry of QᵀQ − I, or of (θ² + ξ²)/r² − 1, in double precision,
  after the number of steps in brackets; an asterisk says that one weight of each shape made those
  steps, where all of them would take too long.
- Gradients are random, of Frobenius norm 0.1 for every weight (about what a layer has in
  training), and stay the same for 10 steps: momentum builds up, and nothing converges. The learning
  rate is 0.1 and the momentum 0.9 unless a row says otherwise. Everything is float32.
- A row of this library has default arguments, unless it says `eager` (`fused=False`: without
  kernels) or `fused` (`fused=True`). The first step, which may compile, is not in the times. Its
  own bar is about the process that ran this: kernels that an earlier one left in torch's cache on
  the disk are found again.
- Peers: *geoopt* moves tall matrices, so kernels are reshaped for it; *POGO* takes a stack of
  matrices, or goes one by one; a reparametrisation (*torch*, *geotorch*) is timed with its own
  forward and backward pass; *Muon* makes updates orthogonal, not weights. torch's Muon computes in
  bfloat16, which many processors do in software, slowly; `float32 products` is the same update in
  float32. What a peer cannot constrain, fused SGD moves. *The printed formulas* are the library's
  test oracle in float32: the sources' equations as they stand, without any of the work that went
  into speed.
"""

BARS = """## What was to be reached

Every bar is here with the figure of this run, met or not. All figures of a work come from one run
in which its contestants took turns.

Memory sets a floor for steps that do little with each number. Circles have an angle beside each
weight. So a step moves 24 bytes per weight (angle, speed and gradient are read, angle, speed and
weight written). SGD with momentum moves 20: the ratio is 1.2 before anything is computed. Without
momentum it is 20 to 12, which is 1.7. What Python adds to a step, whatever its
size, is nearly all of the time of the smallest sizes in (f).
"""

SAMPLING = """### The tables about sampling, (s)

- Each law has exact averages, from formulas or quadrature. **ESS** is the least effective sample
  size of the averaged quantities (bulk, as ArviZ defines it), **seconds** is the processor time of
  the whole call on one thread, with 200 steps of warm-up and the search for a step (mici,
  blackjax and NumPyro: half as many as their draws). Imports and compiling come before. Every row
  is one call; the rows of a law follow one another in one process.
- **Bias** is the largest distance of an average from the exact one in standard deviations of the
  quantity, with its Monte Carlo error. Rows are compared if it is at most 0.05 or within two
  errors of 0; the others are marked. **Ratio** is the rate over that of the row named above.
- **Violation** is the largest |h| or positive g of all draws.
- This library moves all chains as one computation and so do OLLA, geoopt, posteriors, blackjax
  and NumPyro. mici moves chain after chain; a process per core would multiply its rate by the
  cores at most.
- Steps: this library's warm-up and those of mici, blackjax and NumPyro find theirs. With walls (g
  ≤ 0) this library has a fixed step (0.3, in 1000 dimensions 0.1), and the potential is infinite
  behind the wall. OLLA has no rule for its step: it has several, 0.0005 as in its own experiments
  in two dimensions and larger ones, with αh = 0.1, and the best row without bias counts. The
  samplers beside it, geoopt and posteriors have one step each. CHMC and CGHMC draw momenta of
  variance ½, as their code stands (their half-step has noise √(2α) where √(4α) keeps the variance
  1); the bias of their rows is that of another temperature.
- Of OLLA's problems three are not here. The wall of `mix_gaussian` cuts its star into three arcs
  that no chain leaves. `highdim_polymer` drifts through space, so its coordinates have no law.
  `german_credit` needs a download and has no exact answer.
- Peers: {versions}. OLLA runs from the user's checkout, which the environment variable
  `COLANGEVIN_OLLA` names; none of its code is in this repository.
"""
