"""transformer-circle, on small files written here."""

from dataclasses import replace

import pytest

import small_data
from colangevin.lab.experiments.text import transformer_circle as transformer
from colangevin.lab.experiments.text import transformer_findings
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture(scope="module")
def whole(smoke):
    """An uninterrupted run at the smallest scale, and its data."""
    with small_data.any_hash():
        yield smoke("transformer-circle"), smoke.data


def test_every_method_has_a_whole_record(whole):
    records, _ = whole
    assert list(records) == [f"{d}-{m}" for d in transformer.PAPER for m in transformer.METHODS]
    for record in records.values():
        assert record.complete
        assert record.history["epoch"] == [1, 2]
        losses = [entry[0] for entry in record.history["valid_loss"]]
        assert record.final["min_valid_loss"] == [min(losses)]
        assert record.final["diverged"] == []
    assert records["ptb-c-cola-ud"].values("largest_weight")[0] <= 1.0
    assert records["ptb-sgd-m"].values("largest_weight")[0] > 1.0


def test_a_batch_has_the_tokens_of_the_paper(whole):
    records, _ = whole
    # 1,100 tokens: one row too few for a second sequence of 32 in 32 columns; eight in four.
    assert records["ptb-sgd-m"].final["steps"] == 2 * 2
    assert records["wikitext-2-sgd-m"].final["steps"] == 2 * 9


def test_learns_what_follows(whole):
    records, _ = whole
    first, last = (entry[0] for entry in records["wikitext-2-c-cola-ud"].history["valid_loss"])
    assert last < first


@pytest.mark.parametrize("name", ["wikitext-2-c-cola-ud", "wikitext-2-sgd-m-wd"])
def test_stopped_within_an_epoch_and_resumed_equals_uninterrupted(
    tmp_path, whole, name, monkeypatch
):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    records, data = whole
    settings = transformer.EXPERIMENT.settings("smoke", None, 0)
    job = next(item for item in transformer.jobs(settings) if item.name == name)
    for progress in (small_data.stop_after(5), lambda done: True):
        transformer.run(job, Log(job, tmp_path, data, progress=progress))
    found = read_records(tmp_path)[name]
    assert (found.history, found.final) == (records[name].history, records[name].final)


def test_figures_table_and_claims_from_records(whole):
    records, _ = whole
    axes = transformer_findings.figures(records)["losses"].axes
    titles = [f"{text}, 1,100 tokens" for text in ("WikiText-2", "Penn Treebank")]
    assert [axis.get_title() for axis in axes[::2]] == titles
    assert {len(axis.get_legend().get_texts()) for axis in axes} == {4}
    assert len(transformer_findings.table(records).rows) == 8
    found = transformer_findings.claims(records)
    assert len(found) == 2 * (4 + 3) + 1
    assert found[-1].text.endswith("of 10 more rows") and "not run" in found[-1].number.by
    part = Records([records["wikitext-2-sgd-m"]])
    assert len(transformer_findings.figures(part)["losses"].axes) == 2
    assert len(transformer_findings.table(part).rows) == 1
    assert [claim.number.verdict for claim in measured(part)] == ["not comparable"]


def test_the_papers_scale_has_every_row():
    planned = transformer.jobs(transformer.EXPERIMENT.settings("paper", None, 0))
    assert len(planned) == 2 * 9
    for job in planned:
        assert (job.settings["epochs"], job.settings["size"]) == (200, 200)
        assert job.settings["method"] in transformer_findings.STATED[job.settings["dataset"]]
    steps = {j.name: (j.settings.get("lr"), j.settings.get("momentum")) for j in planned}
    assert steps["ptb-sgd-m-fast-0.7"] == (0.2, 0.7)
    decayed = {j.settings["momentum"] for j in planned if j.settings.get("weight_decay")}
    assert decayed == {0.7, 0.8, 0.9}
    assert planned[0].settings["train_tokens"] == 929_589


def test_the_papers_scale_makes_steps(tmp_path, whole):
    """Every row of both texts."""
    _, data = whole
    smaller = {"epochs": 2, "size": 8, "train_tokens": 1_100, "valid_tokens": 520}
    records = []
    for job in transformer.jobs(transformer.EXPERIMENT.settings("paper", None, 0)):
        job = replace(job, settings={**job.settings, **smaller})
        log = Log(job, tmp_path, data)
        transformer.run(job, log)
        assert log.record.final["diverged"] == []
        records.append(log.record)
    assert len(transformer_findings.table(Records(records)).rows) == 18
    assert len(measured(Records(records))) == len(transformer_findings.claims(Records(records)))
    found = Records([record for record in records if record.settings["dataset"] == "ptb"])
    assert len(transformer_findings.table(found).rows) == 9
    rest = transformer_findings.claims(found)[-1]
    assert rest.text.endswith("of 9 more rows") and rest.why.count("WikiText-2") == 9


def test_the_whole_treebank_has_the_authors_scheme_beside():
    planned = transformer.jobs(transformer.EXPERIMENT.settings("beside", None, 0))
    assert planned[:4] == transformer.jobs(transformer.EXPERIMENT.settings("treebank", None, 0))
    assert [job.settings["train_tokens"] for job in planned] == [929_589] * 6
    schemes = {job.settings["method"]: job.settings.get("scheme") for job in planned}
    assert schemes["c-cola-ud"] is None and schemes["c-cola-ud-aoab"] == "AOAB"
    parts = [transformer.begin({**job.settings, "size": 8}, 50) for job in planned[-2:]]
    for part in parts:
        assert all(group["delayed_gradient"] for group in part.optimizer.param_groups)
    records = Records(
        Record(
            "x",
            job.name,
            i,
            job.settings,
            history={
                "epoch": list(range(1, job.settings["epochs"] + 1)),
                "valid_loss": [[6.0 + i + 1 / e] for e in range(1, job.settings["epochs"] + 1)],
            },
            final={"min_valid_loss": [6.0 + i], "train_loss": [6.0], "largest_weight": [1.0]},
        )
        for i, job in enumerate(planned)
    )
    found = transformer_findings.of_text(records, "treebank")
    assert list(found) == [*transformer.LONG, *transformer.BESIDE]
    table = transformer_findings.table(records)
    assert table.columns[3:5] == ["loss after 1 epoch", "minimum validation loss"]
    assert [row[2:4] for row in table.rows[3:]] == [["20", "10.00"], ["1", "11.00"], ["1", "12.00"]]
    made = measured(records)
    assert [claim.source for claim in made if "c-CoLA-ud" in claim.text] == ["4.81"] * 3
    assert sum(claim.order is not None for claim in made) == 2
    rest = transformer_findings.claims(records)[-1]
    assert rest.text.endswith("of 14 more rows")


def test_a_night_has_the_stated_epochs():
    planned = transformer.jobs(transformer.EXPERIMENT.settings("night", None, 0))
    assert {job.settings["epochs"] for job in planned} == {200}
    assert not transformer_findings._reduced(planned[0].settings)


def measured(records):
    return [c for c in transformer_findings.claims(records) if "more rows" not in c.text]


def faked(epochs, losses):
    settings = {**transformer.SCALES["paper"], "seed": 0, "epochs": epochs}
    jobs = {j.settings["method"]: j for j in transformer.jobs(settings) if j.name[:3] == "ptb"}
    return Records(
        Record("x", jobs[m].name, i, jobs[m].settings, final={"min_valid_loss": values})
        for i, (m, values) in enumerate(losses.items())
    )


def test_verdicts():
    steps = (-2, -1, 0, 1, 2)
    stated = transformer_findings.STATED["ptb"]
    paper = {m: [v + 0.001 * step for step in steps] for m, v in stated.items()}
    same = measured(faked(200, paper))
    assert {a.verdict for c in same for a in c.answers} == {"yes"}
    short = measured(faked(2, {m: [v[0] + 1] for m, v in paper.items()}))
    assert {str(c.number) for c in short if c.number} == {"not comparable (2 of 200 epochs)"}
    assert {str(c.order) for c in short if c.order} == {"undecided (n = 1)"}
    worse = {"c-cola-ud": [v + 0.3 for v in paper["c-cola-ud"]], "sgd-m": paper["sgd-m"]}
    upset = measured(faked(200, worse))
    assert [c.order.verdict for c in upset if c.order] == ["no"]
    assert [c.number.verdict for c in upset if c.number] == ["no", "yes"]
