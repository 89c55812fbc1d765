"""language-model: what is searched for, what is the same for all methods, and what is concluded."""

import math

import pytest
import torch

import small_data
from colangevin.lab.data import wikitext2_bytes
from colangevin.lab.experiments.text import language_findings as findings
from colangevin.lab.experiments.text import language_model as language
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records
from colangevin.lab.runner.training import Run
from colangevin.optimizers.violation import Violation

METHODS = list(language.METHODS)
WIDTH = language.SCALES["smoke"]["width"]


@pytest.fixture(scope="module")
def whole(smoke):
    """An uninterrupted run at the smallest scale, and its data."""
    with small_data.any_hash():
        yield smoke("language-model"), smoke.data


def begun(method, data, lr=0.01):
    """A run of a method that has made no step."""
    settings = {**language.SCALES["smoke"], **language.METHODS[method], "seed": 0}
    stretch = language.Stretch("sweep", WIDTH, lr, 12, [0])
    text = wikitext2_bytes(data, verify=False)
    return Run(language.language_training(settings, text, stretch), seed=3)


def test_every_method_is_swept_and_has_its_seeds(whole):
    records, _ = whole
    assert list(records) == [*METHODS, *(f"transfer-{name}" for name in language.TRANSFERRED)]
    for name in METHODS:
        record = records[name]
        steps, losses = record.settings["steps"], findings.swept(record.history, WIDTH, 12)
        assert steps == 12 and set(record.settings["lrs"]) <= set(losses)
        assert len(losses) <= 3 + 1
        chosen = findings.best_lr(record)
        assert losses[chosen] == min(losses.values())
        assert len(record.values("valid_loss")) == len(record.final["seconds"]) == 2
        assert all(map(math.isfinite, record.values("valid_loss")))
        seeds = findings.rows_of(record.history, "seeds", WIDTH, chosen)
        assert [row["step"] for row in seeds] == [4, 8, 12]
        assert seeds[-1]["valid_loss"] == record.final["valid_loss"]
    assert len(records["adam-norm"].final["shorter_valid_loss"]) == 2
    for name in language.TRANSFERRED:
        record = records[f"transfer-{name}"]
        assert [len(findings.swept(record.history, w, 6)) for w in (32, 64)] == [3, 3]
        assert set(record.final) == {"best_lr"}


def test_learns(whole):
    records, _ = whole
    for name in METHODS:
        first, *_, last = findings.courses(records[name])["valid_loss"].mean(axis=1)
        assert last < first < math.log(256)


@pytest.mark.parametrize("stops", [(5,), (40, 3)])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path, whole, stops, monkeypatch):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    records, data = whole
    settings = language.EXPERIMENT.settings("smoke", None, 0)
    job = next(item for item in language.jobs(settings) if item.name == "adam-norm")
    for progress in (*map(small_data.stop_after, stops), lambda done: True):
        language.run(job, Log(job, tmp_path, data, progress=progress))
    found, expected = read_records(tmp_path)[job.name], records[job.name]
    kept = [key for key in expected.history if key != "seconds"]
    assert {key: found.history[key] for key in kept} == {k: expected.history[k] for k in kept}
    assert found.final["shorter_valid_loss"] == expected.final["shorter_valid_loss"]


def test_methods_of_a_seed_share_first_weights_and_batches(whole):
    _, data = whole
    control = begun("adam", data)
    first = {name: p.detach().clone() for name, p in control.model.named_parameters()}
    for method in METHODS:
        run = begun(method, data)
        assert torch.equal(run._random, control._random), "the batches to come"
        for name, parameter in run.model.named_parameters():
            if "orthogonal" in language.METHODS[method]["geometry"].values() and "blocks" in name:
                continue
            torch.testing.assert_close(parameter.detach(), first[name], rtol=1e-6, atol=1e-6)


def test_only_the_hidden_matrices_have_the_method(whole):
    _, data = whole
    for method, own in language.METHODS.items():
        *hidden, others = begun(method, data, lr=0.02).optimizer.param_groups
        assert [len(group["params"]) for group in hidden] == [4, 2]
        assert all(p.dim() == 2 for group in hidden for p in group["params"])
        for group, geometry in zip(hidden, own["geometry"].values(), strict=True):
            wanted = language.GEOMETRIES[geometry]
            assert type(group["constraint"]).__name__ == (
                "Unconstrained" if wanted is None else type(wanted).__name__
            )
            assert group["initial_lr"] == 0.02
            assert group["decoupled_weight_decay"] == (0.1 if method == "adam-decay" else 0.0)
        assert others["initial_lr"] == 0.004
        assert type(others["constraint"]).__name__ == "Unconstrained"


@pytest.mark.parametrize("method", METHODS)
def test_constraints_hold_after_steps(whole, method):
    _, data = whole
    run = begun(method, data)
    for _ in range(5):
        run.advance()
    found = run.optimizer.violation()
    assert all(isinstance(own, Violation) and own.residual < 1e-5 for own in found)
    assert run.diverged is None


def test_the_schedule_is_its_literal_twin():
    found = [language.schedule(30)(step) for step in range(30)]
    rising = [(step + 1) / 3 for step in range(3)]
    assert found == pytest.approx(rising + [(30 - step) / 27 for step in range(3, 30)])


def test_the_loss_is_its_literal_twin():
    torch.manual_seed(0)
    model = language.GPT(256, size=32, heads=1, layers=1, longest=5).requires_grad_(False)
    torch.nn.init.normal_(model.head.weight)
    text = torch.randint(256, (2, 6), dtype=torch.uint8)
    total = 0.0
    for row in text.tolist():
        for place in range(1, 6):  # from what came before alone
            logits = model(torch.tensor([row[:place]]))[0, -1]
            total -= float(logits.log_softmax(0)[row[place]])
    assert float(language.sequence_loss(model, text)) == pytest.approx(total / 10, rel=1e-5)
    assert language.mean_loss(model, text) == pytest.approx(total / 10, rel=1e-5)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({}, 1.0),
        ({1.0: 5.0}, 2.0),
        ({1.0: 5.0, 2.0: 4.0, 4.0: 4.5}, None),
        ({1.0: 5.0, 2.0: 4.0, 4.0: 3.0}, 8.0),
        ({1.0: 5.0, 2.0: 4.0, 4.0: 3.0, 8.0: 2.0}, 16.0),
        ({1.0: 5.0, 2.0: 4.0, 4.0: 3.0, 8.0: 2.0, 16.0: 1.0}, None),
        ({1.0: 3.0, 2.0: 4.0, 4.0: 5.0}, 0.5),
        ({1.0: 3.0, 2.0: math.nan, 4.0: math.nan}, 0.5),
    ],
)
def test_a_sweep_goes_on_beyond_the_end_where_the_best_is(losses, expected):
    assert language.next_lr([1.0, 2.0, 4.0], losses, 2) == expected


# --- what is concluded, from records made by hand ------------------------------------------


def faked(losses, short=(2.0, 2.1, 2.2)):
    """Records with these last losses; the rest does not matter."""
    settings = language.EXPERIMENT.settings("laptop", None, 0)
    jobs = {job.name: job for job in language.jobs(settings)}
    made = []
    for name, values in losses.items():
        own = jobs[name].settings
        rows = [("sweep", [3.0 + abs(i - 2)], lr) for i, lr in enumerate(own["lrs"])]
        rows.append(("seeds", list(values), own["lrs"][2]))
        history = {
            "part": [part for part, _, _ in rows],
            "width": [128] * 6,
            "lr": [lr for _, _, lr in rows],
            "step": [own["steps"]] * 6,
            "valid_loss": [loss for _, loss, _ in rows],
            "train_loss": [loss for _, loss, _ in rows],
            "seconds": [[20.0 + i for i, _ in enumerate(loss)] for _, loss, _ in rows],
        }
        record = Record(language.NAME, name, 0, own, history=history)
        final = findings.outcome(record)
        if "shorter" in own:
            final["shorter_valid_loss"] = list(short)
        made.append(Record(language.NAME, name, 0, own, history=history, final=final))
    return Records(made)


ADAM = (2.0, 2.1, 2.2, 2.1, 2.0)
LOWER = (1.9, 2.01, 2.1, 1.99, 1.9)
HIGHER = (2.1, 2.19, 2.3, 2.21, 2.1)
MIXED = (1.9, 2.2, 2.2, 2.0, 2.1)


@pytest.mark.parametrize(
    ("losses", "verdict"), [(LOWER, "yes"), (HIGHER, "no"), (MIXED, "undecided")]
)
def test_an_ordering_is_decided_by_a_t_test(losses, verdict):
    claims = findings.claims(faked({"adam": ADAM, "adam-norm": losses}, ADAM))
    claim = next(claim for claim in claims if "same steps" in claim.text)
    assert claim.order.verdict == verdict and claim.number is None
    assert "reduced" in claim.why and "p = " in claim.why


def test_three_runs_decide_nothing():
    claims = findings.claims(faked({"adam": ADAM[:3], "adam-norm": LOWER[:3]}, LOWER[:3]))
    assert {claim.order.verdict for claim in claims} == {"undecided"}


@pytest.mark.parametrize(
    ("losses", "verdict"), [(LOWER, "no"), (HIGHER, "no"), (MIXED, "undecided")]
)
def test_that_two_are_equal_can_be_refuted_and_not_shown(losses, verdict):
    (claim,) = findings.claims(faked({"polar": ADAM, "polar-norm": losses}))
    assert claim.source == "MuonH = Muon" and claim.order.verdict == verdict


@pytest.mark.parametrize(
    ("short", "verdict"), [(LOWER, "yes"), (HIGHER, "no"), (MIXED, "undecided")]
)
def test_fewer_steps_have_to_reach_adams_loss(short, verdict):
    claims = findings.claims(faked({"adam": ADAM, "adam-norm": LOWER}, short))
    claim = next(claim for claim in claims if "87% of Adam's steps" in claim.text)
    assert claim.order.verdict == verdict


def test_a_best_lr_that_moves_with_the_width(whole):
    records, _ = whole
    own = records["transfer-adam"]
    width, lrs = own.settings["widths"], own.settings["lrs"]

    def moved(small, large):
        best = {str(width[0]): lrs[small], str(width[1]): lrs[large]}
        final = {"best_lr": best}
        return findings._moved(
            Record("x", own.job, 0, own.settings, {}, "", 0, True, own.history, final)
        )

    assert str(moved(1, 1).order) == "undecided (1 run each)"
    assert "at an end of the sweep" in str(moved(0, 1).order)
    assert moved(0, 1).ours.startswith(f"{lrs[0]:g} to {lrs[1]:g}")


def test_figures_table_and_claims_from_records(whole):
    records, _ = whole
    drawn = findings.figures(records)
    assert list(drawn) == ["losses", "sensitivity", "transfer"]
    lines = [len(axis.get_lines()) for axis in drawn["losses"].axes]
    assert lines == [6, 6, 6, 6] and len(drawn["transfer"].axes) == 4
    table = findings.table(records)
    assert len(table.rows) == len(METHODS)
    assert [row[3] for row in table.rows if row[0] in ("Adam", "Muon")] == ["control", "control"]
    assert len(findings.claims(records)) == 5 + 4
    part = Records([records["polar-norm"]])
    assert list(findings.figures(part)) == ["losses", "sensitivity"]
    assert findings.table(part).rows[0][3] == "–" and findings.claims(part) == []
    alone = Records([records["transfer-adam"]])
    assert list(findings.figures(alone)) == ["transfer"] and findings.table(alone).rows == []


def test_the_table_has_what_the_records_have():
    found = faked({"adam": ADAM[:3], "adam-norm": LOWER[:3]})
    control, row = findings.table(found).rows
    assert control[1] == "0.001" and control[2].startswith("2.1000 ± 0.1000")
    assert row[3] == "+0.0967 ± 0.0033, better in 3 of 3, p = 0.0012"
    assert row[5] == "21.0 ± 1.0 (3 runs)" and row[7] == "+1.000, +1.000"
