"""Readings of the sources that were ours and have changed: before, after, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colangevin.lab.claims.wording import markdown_table
from colangevin.lab.report.results import Results
from colangevin.lab.runner.experiment import Claim


@dataclass(frozen=True)
class Reading:
    """One reading that has changed.

    Attributes:
        what: of the sources.
        before: what was done, or found, at first.
        why: it has changed.
        experiment: whose records show it; none for what is no experiment.
        claims: how the texts of the claims begin that show it.
        after: what is done now, before the claims.
    """

    what: str
    before: str
    why: str
    after: str = ""
    experiment: str = ""
    claims: tuple[str, ...] = ()


TWO_FORMS = "two parametrisations of one method, with couplings ε² and ε; not a misprint"
READINGS = (
    Reading(
        "friction of AdLaLa, figure 3.16",
        "ξ alone; εξ of (3.31) was called a misprint, and three rows were not as stated",
        TWO_FORMS,
        "both forms by name, `equation=`; the figure comes out with εξ.",
        "partitioned-noise",
        ("(3.31): test accuracy at", "test accuracy on four turns, %: coupling ε of (3.31)"),
    ),
    Reading(
        "first ξ, and thermostats of weights and biases",
        "ξ starts at 0, one for a part",
        "the authors' code starts at 0.1 and has one for weights and one for biases",
        "both, by `first_friction=` and `separate_biases=`; in the table of the page.",
        "partitioned-poker",
    ),
    Reading(
        "poker hands and chess, figures 3.18 and 3.19",
        "attributes of mean 0 and deviation 1, both hidden layers of the chess network adaptive: "
        "AdLaLa 21 points behind Adam on poker hands",
        "the authors' code has raw attributes, and the first layer alone in the first part",
        "raw attributes, the first layer alone, 5 runs, late means.",
        "partitioned-poker",
        ("late test accuracy",),
    ),
    Reading(
        "orthogonal ResNet, figures 6 and 4.9",
        "20,000 augmented images: SGD-m ends at a training loss of 0.5, and nothing overfits",
        "the claim is about overfitting; the authors' script has a warm-up",
        "1,000 images as they are, warm-up, 5 runs; the other rows are shown and not judged.",
        "cifar-orthogonal",
        ("test loss", "test accuracy"),
    ),
    Reading(
        "transformer, tables 2 and 4.4",
        "the scheme OBA; 98 steps of both texts among the rows",
        "the authors' circle code has AOAB with a delayed gradient; 98 steps say nothing",
        "the short rows are gone; AOAB with batches as tokens and as sequences (`--scale beside`) "
        "and 200 epochs (`--scale night`) are written, and have not been run.",
        "transformer-circle",
        ("minimum validation loss, the whole Penn Treebank",),
    ),
    Reading(
        "curvature, tables 4.1 and 4.5",
        "fifteen verdicts on means; C-SGD had two, from records before and after the slack's floor",
        "single points and the extent of the grid make the means",
        "medians and quartiles first, three extents for SGD, all numbers in one claim; C-SGD with "
        "the slack's floor is the row τ = 0 of [spiral-temperature](spiral-temperature.md), and "
        "its numbers are in no other verdict.",
        "spiral-curvature",
        ("mean curvature of all points",),
    ),
    Reading(
        "images between digits, section 6.2",
        "the digits that CNNs were surest of, one generator, CNNs as the reference",
        "easy images; images, reference and judged networks hang together; one set decides nothing",
        "written, and run in trials only: digits at random among recognised ones, several "
        "generators, a reference of another kind. In the earlier record:",
        "boundary-digits",
        ("two networks disagree", "type A: falls", "type C: rises"),
    ),
    Reading(
        "sleeping weights, figure 5.7",
        "20 epochs of 60,000 images, 3 runs: SGD does not overfit",
        "a regulariser can only help where something overfits",
        "beside it 1,000 images for 400 epochs, 5 runs (`--scale few`).",
        "multirate-subsets",
        ("MNIST, 1,000 images",),
    ),
    Reading(
        "fine-tuning at two rates, figure 5.4",
        "64 pixels, 126 steps",
        "the slow momentum alone remembers 50 steps",
        "not run anew: 96 pixels and 1,000 steps need the file of the pretrained network, which "
        "was not at hand.",
        "multirate-images",
        ("fine-tuning, test accuracy, %: multirate, fc fast > full",),
    ),
    Reading(
        "σ of SGLD, figure 3.6",
        "0.01, as printed",
        "figure 3.8 prints 0.1, and the size of the weights speaks for it",
        "both are run, and it stays open.",
        "weight-distributions",
        (
            "test accuracy of SGLD, two turns, step 10,000",
            "test accuracy of SGLD, σ = 0.1, two turns",
        ),
    ),
    Reading(
        "LOL at too high temperatures, figure 3.17",
        "spirals with p = 0.5",
        "the figure is from the program with p = 1",
        "both.",
        "partitioned-temperature",
        ("late test accuracy of LOL, τ = 0.001", "late test accuracy of LOL, p = 1, τ = 0.001"),
    ),
    Reading(
        "Gaussian first weights, figure 3.14",
        "biases were Gaussian, too",
        "the caption has weights alone",
        "weights alone.",
        "partitioned-spirals",
        ("test accuracy depends on the initialisation",),
    ),
    Reading(
        "starts from zeros, figure 3.16",
        "not run",
        "it may be what “no better than random” at σ_A = 0 is about",
        "a row of the map; in the table of the page.",
        "partitioned-noise",
    ),
    Reading(
        "spheres with noise, future work of the thesis",
        "sampled in tests only",
        "named in the thesis, without a result",
        "written, and not run: bounds on norms, two pairs of radii, with and without noise "
        "(`--scale spheres`).",
        "spiral-classifiers",
    ),
    Reading(
        "points of the spirals; the published multirate loop",
        "not said",
        "the authors' code mirrors the arms, and makes no move in the k-th batch",
        "in the [errata](../errata.md#what-the-published-code-settles); nothing that is claimed "
        "changes.",
    ),
    Reading(
        "spectrum of the Hessian; speed-up (5.6)",
        "not offered",
        "the sources use them",
        "`hessian_spectrum` and `multirate_speed_up`, see [diagnostics](../diagnostics.md) and "
        "[multirate](../multirate.md).",
    ),
)
HEAD = """# What was read otherwise at first

Some readings of the sources were ours, and not right. An audit that compared this library with the
text and with the authors' published programs found them. The table has what was done before, what
is found now, and why it has changed. Settings were chosen before the runs, by what the text or the
authors' programs say, and not varied until something came out.
Back to the [overview](../{overview}).
"""


def readings(found: Sequence[Results], overview: str) -> str:
    """The page of readings; what is found now comes from the records.

    Args:
        found: all results.
        overview: name of the page that it is linked from.
    """
    by_name = {results.experiment.name: results for results in found}
    rows = [_row(reading, by_name.get(reading.experiment)) for reading in READINGS]
    table = markdown_table(["what", "before", "after", "why it has changed"], rows)
    return f"{HEAD.format(overview=overview)}\n{table}"


def _row(reading: Reading, results: Results | None) -> list[str]:
    what, after = reading.what, reading.after
    if results is not None:
        what = f"[{what}]({reading.experiment}.md)"
        claims = [c for c in results.claims if c.text.startswith(reading.claims)]
        after = " ".join([after, *map(_said, claims)])
    return [what, reading.before, after, reading.why]


def _said(claim: Claim) -> str:
    """What was found, and whether it is as stated.

    Example:
        >>> from colangevin.lab.runner.experiment import Answer
        >>> found = Answer("yes", "paired t, n = 5, p = 0.01")
        >>> _said(Claim("loss", "A < B", "A 1; B 2", order=found))
        'Loss: A 1; B 2; as stated: yes.'
    """
    verdicts = " and ".join(answer.verdict for answer in claim.answers)
    return f"{claim.text[:1].upper()}{claim.text[1:]}: {claim.ours}; as stated: {verdicts}."
