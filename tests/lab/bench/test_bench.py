import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from colangevin.ensemble import Ensemble
from colangevin.lab.bench import (
    bars,
    peers,
    plot,
    presenting,
    printed_formulas,
    scaling,
    seeds,
    works,
)
from colangevin.lab.bench.benchmark import LETTERS, PACKAGES, STEPS, Settings, run
from colangevin.lab.bench.contestant import (
    GRADIENT_NORM,
    Setting,
    Unavailable,
    Weight,
    draw_initial,
    draw_pool,
    orthogonality,
)
from colangevin.lab.bench.measuring import Environment, measure
from colangevin.lab.bench.ours import cola, kept_bytes, under_schedule
from colangevin.lab.bench.record import Record, Row
from colangevin.lab.bench.timing import Effort, run_on, scratch_bytes
from colangevin.lab.bench.works import Entry, Sizes, Work
from colangevin.lab.cli.bench_command import run_bench
from colangevin.lab.cli.main import app
from colangevin.optimizers import CoLA

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "tests" / "reference.py"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
CPU = torch.device("cpu")
TINY = Sizes(
    hidden=8,
    width=2,
    matrices=3,
    tall=8,
    model=8,
    layers=1,
    batch=2,
    blocks=(1,),
    channels=2,
    parameters=(100, 1000),
    sides=(4, 8),
    counts=(1, 3),
    nodes=8,
    seeds=(1, 3),
    noisy_seeds=3,
)
HASTE = Effort(
    rounds=2,
    round_seconds=1e-4,
    seconds=0.02,
    patience=30.0,
    steps=12,
    settling=2,
    ours_seconds=30.0,
    peers_seconds=0.05,
)


@pytest.fixture(scope="module", autouse=True)
def eager_on_one_thread():
    """Compiled kernels have tests of their own, and compiling takes longer than all of these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("ours", "training_steps"):
            patch.setattr(
                f"colangevin.lab.bench.{module}.CoLA",
                lambda *args, fused=None, **options: CoLA(*args, **options),
            )
        patch.setattr(
            "colangevin.lab.bench.seeds.Ensemble",
            partial(Ensemble, compile=False),
        )
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory, eager_on_one_thread):
    directory = tmp_path_factory.mktemp("bench") / "new" / "place"
    code = run_bench(
        out=directory, quick=True, reference=REFERENCE, sizes=TINY, effort=HASTE, threads=1
    )
    return code, directory, Record.load(directory / "bench.json")


def setting_of(*weights: Weight, **options) -> Setting:
    generator = torch.Generator().manual_seed(0)
    return Setting(weights, draw_initial(weights, generator, CPU), **options)


# --- a whole run --------------------------------------------------------------------------


def test_writes_json_picture_and_page(tiny_run):
    code, directory, _ = tiny_run
    assert code == 0
    assert sorted(p.name for p in directory.iterdir()) == ["bench.json", "bench.md", "bench.png"]
    assert (directory / "bench.png").read_bytes().startswith(PNG_SIGNATURE)


def test_every_work_has_rows_of_ours_with_time_memory_and_violation(tiny_run):
    record = tiny_run[2]
    assert list(record.works) == list(STEPS)
    for letter in STEPS:
        rows = [row for row in record.of_work(letter) if row.ours]
        assert rows
        for row in rows:
            if row.label == seeds.ADLALA and row.note:
                assert "takes no method" in row.note
                continue
            assert row.seconds is not None and row.seconds > 0.0, row
            assert row.first is not None and row.first > 0.0, row
            assert row.ratio is not None and row.baseline is not None, row
            assert row.state is not None, row
            assert row.steps >= 3, row
            if row.label in (seeds.ENSEMBLE, seeds.ADLALA):  # without constraints
                assert row.violation is None
                continue
            assert row.violation is not None and row.violation < 1e-5, row
            assert letter in "eg" or row.scratch is not None, row


def test_peers_are_measured_or_say_why_not(tiny_run):
    for row in tiny_run[2].rows:
        assert row.seconds is not None or row.note
        assert not row.note.startswith("failed"), row


def test_record_says_when_where_and_with_what(tiny_run):
    record = tiny_run[2]
    for key in ("date", "cpu", "cores", "threads", "python", "torch", *PACKAGES):
        assert record.machine[key]
    assert record.machine["threads"] == 1
    assert record.settings["seed"] == 0
    assert record.complete


def test_page_shows_all_rows_and_bars(tiny_run):
    _, directory, record = tiny_run
    page = (directory / "bench.md").read_text(encoding="utf-8")
    assert page == presenting.markdown(record, picture="bench.png", json="bench.json")
    for row in record.rows:
        assert row.label in page
    for bar in record.bars:
        assert bar.text in page
    assert str(directory) not in page


def test_all_bars_are_judged(tiny_run):
    record = tiny_run[2]
    missing = [bar.text for bar in record.bars if bar.met is None]
    # These need packages that may not be there, or an Ensemble that takes a method.
    unmeasured = {"orthogonal to geoopt", "POGO", "AdLaLa"}
    assert all(any(word in text for word in unmeasured) for text in missing)
    assert len(record.bars) == 23


def test_json_comes_back_as_it_went(tiny_run, tmp_path):
    record = tiny_run[2]
    record.save(tmp_path / "again.json")
    assert Record.load(tmp_path / "again.json") == record


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"format": 0}))
    with pytest.raises(ValueError, match="format 0"):
        Record.load(path)


def test_interruption_keeps_what_is_done():
    seen = []

    def tick(what: str) -> None:
        seen.append(what)
        if what.startswith("(c)"):
            raise KeyboardInterrupt

    record = run(Settings(works=["a", "c"], effort=HASTE, sizes=TINY), None, tick)
    assert not record.complete
    assert list(record.works) == ["a"]
    assert record.of_work("a") and not record.of_work("c")
    assert all(bar.work in ("", "a") for bar in record.bars)


def test_what_is_done_is_on_the_disk_before_a_crash(tmp_path, monkeypatch, capsys):
    def crash(work, environment, tick):
        if work.letter == "c":
            raise MemoryError("no more")
        return measure(work, environment, tick)

    monkeypatch.setattr("colangevin.lab.bench.benchmark.measure", crash)
    with pytest.raises(MemoryError):
        run_bench(works="a,c", out=tmp_path, sizes=TINY, effort=HASTE)
    record = Record.load(tmp_path / "bench.json")
    assert list(record.works) == ["a"] and record.of_work("a") and not record.complete
    # No bar is drawn into a pipe: a line says what is done.
    assert "(a) circle constraints, network 784-8-10: done, " in capsys.readouterr().out


def test_full_disk_is_a_line(tmp_path, monkeypatch, capsys):
    def full(path, text):
        raise OSError(f"cannot write to {path}: No space left on device")

    monkeypatch.setattr("colangevin.lab.cli.bench_command.write_text", full)
    assert run_bench(works="a", out=tmp_path, sizes=TINY, effort=HASTE) == 2
    assert capsys.readouterr().err.startswith("cola bench: cannot write to ")


# --- the command --------------------------------------------------------------------------


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("cola bench: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--works", "a,x"), "works must be some of a, b, c, d, e, f, g, s, got x"),
        (("--works", ","), "got none"),
        (("--rounds", "0"), "rounds must be at least 1, got 0"),
        (("--threads", "-1"), "threads must be at least 1, got -1"),
        (("--seed", "-1"), "seed must lie between"),
        (("--quick", "--full"), "exclude each other"),
        (("--reference", "no/such/file.py"), "there is no file no/such/file.py"),
    ],
)
def test_bad_values_are_refused_in_one_line(tmp_path, arguments, word):
    assert word in refused("--out", str(tmp_path / "new"), *arguments)
    assert not (tmp_path / "new").exists()


def test_reference_that_is_another_file_is_refused(tmp_path):
    (tmp_path / "other.py").write_text("x = 1\n")
    assert "has no run_word" in refused("--reference", str(tmp_path / "other.py"))


def test_out_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "cannot write to" in refused("--out", str(tmp_path / "file" / "results"))


# --- contestants --------------------------------------------------------------------------

MIXED = (
    Weight((6, 4), "orthogonal"),
    Weight((2, 3, 2, 2), "orthogonal"),
    Weight((5, 3), "circle", 0.2),
    Weight((5,)),
)


def test_initial_weights_satisfy_their_constraints():
    weights = (*MIXED, Weight((6, 4), "orthogonal"), Weight((3, 6, 4), "orthogonal", stacked=True))
    tensors = draw_initial(weights, torch.Generator().manual_seed(0), CPU)
    assert orthogonality(weights, tensors) < 1e-6
    assert tensors[2].abs().max() <= 0.1
    assert not torch.equal(tensors[0], tensors[4])


def test_gradients_have_the_stated_norm_and_change_their_sign():
    pool = draw_pool(MIXED, 2, torch.Generator().manual_seed(0), CPU)
    for gradients in pool:
        for gradient in gradients:
            assert gradient.norm() == pytest.approx(GRADIENT_NORM)
    contestant = cola()(setting_of(*MIXED))
    contestant.feed(pool)
    for source, sign in ((pool[0], 1), (pool[1], 1), (pool[0], -1), (pool[1], -1), (pool[0], 1)):
        contestant.refresh()
        for target, gradient in zip(contestant.gradients, source, strict=True):
            torch.testing.assert_close(target, sign * gradient)


def test_printed_formulas_move_weights_as_the_library_does():
    setting = setting_of(*MIXED, reference=printed_formulas.load(REFERENCE))
    pool = draw_pool(MIXED, 2, torch.Generator().manual_seed(1), CPU)
    both = [cola()(setting), printed_formulas.printed(setting)]
    for contestant in both:
        contestant.feed(pool)
        run_on(contestant, 30, math.inf)
    ours, printed = [contestant.values() for contestant in both]
    for ours_now, printed_now, start in zip(ours, printed, setting.initial, strict=True):
        assert not torch.allclose(ours_now.view(start.shape), start, atol=1e-3)
        torch.testing.assert_close(ours_now, printed_now.view_as(ours_now), atol=2e-5, rtol=1e-4)


def test_printed_formulas_need_their_file():
    with pytest.raises(Unavailable, match="--reference"):
        printed_formulas.printed(setting_of(*MIXED))


PEERS = {
    "geoopt Euclidean": peers.geoopt(canonical=False),
    "geoopt canonical": peers.geoopt(canonical=True),
    "pogo": peers.pogo(),
    "torch": peers.parametrized("torch"),
    "geotorch": peers.parametrized("geotorch"),
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("stacked", [False, True])
def test_peers_move_and_stay_orthogonal(name, stacked):
    setting = setting_of(*[Weight((4, 3, 2), "orthogonal")] * 2, Weight((6, 4), "orthogonal"))
    if stacked:
        setting = setting_of(*[Weight((6, 4), "orthogonal")] * 3).stacked()
    try:
        contestant = PEERS[name](setting)
    except Unavailable as missing:
        pytest.skip(str(missing))
    before = [value.detach().clone() for value in contestant.values()]
    contestant.feed(draw_pool(setting.weights, 2, torch.Generator().manual_seed(1), CPU))
    run_on(contestant, 20, math.inf)
    assert contestant.violation() < 1e-4
    for old, new in zip(before, contestant.values(), strict=True):
        assert (old - new).abs().max() > 1e-3
    assert contestant.state_bytes() > 0


def test_missing_package_is_a_row_and_a_failing_peer_another(monkeypatch):
    def absent(name: str):
        raise ImportError(name)

    def broken(setting: Setting):
        raise ArithmeticError("no luck\nat all")

    monkeypatch.setattr(peers.importlib, "import_module", absent)
    entries = [
        Entry(works.SGD_MOMENTUM, peers.sgd(momentum=True)),
        Entry("absent", peers.pogo()),
        Entry("broken", broken),
    ]
    work = Work("x", "test", [Weight((4, 2), "orthogonal")], entries)
    first, absent_row, broken_row = measure(work, Environment(HASTE, CPU), lambda what: None)
    assert first.ratio == 1.0
    assert absent_row.note == "pogo-torch is not installed"
    assert broken_row.note == "failed: ArithmeticError: no luck"
    assert absent_row.seconds is None and broken_row.seconds is None


def test_peer_that_would_take_too_long_is_estimated():
    hasty = Effort(rounds=1, seconds=0.01, patience=0.0)
    entries = [Entry("slow", peers.parametrized("torch"), cubic=True)]
    work = Work("x", "test", [Weight((4, 2), "orthogonal")] * 3, entries)
    (row,) = measure(work, Environment(hasty, CPU), lambda what: None)
    assert row.estimated and row.seconds > 0.0 and row.rounds == []


def test_scratch_is_what_a_step_allocates():
    contestant = cola()(setting_of(*MIXED))
    kept = []
    contestant.step = lambda: kept.append(torch.empty(1000))
    assert 4000 <= scratch_bytes(contestant, CPU) <= 4100


def test_buffers_that_are_kept_count_as_scratch():
    weight = torch.nn.Parameter(torch.zeros(30))
    weight.grad = torch.ones(30)
    optimizer = CoLA([weight], lr=0.1, momentum=0.9)
    optimizer.step()
    before = kept_bytes(optimizer)
    optimizer.buffer = {"noise": [torch.empty(1000), weight.detach()]}
    assert kept_bytes(optimizer) == before + 4000


# --- judging ------------------------------------------------------------------------------


def record_of(*rows: Row) -> Record:
    return Record({}, {}, {row.work: "" for row in rows}, list(rows))


def test_bars_are_met_missed_or_not_measured():
    record = record_of(
        Row("a", works.SGD_MOMENTUM, seconds=1.0),
        Row("a", works.CIRCLE, ours=True, seconds=1.2, first=3.0, violation=3e-7, steps=7),
        Row("a", works.CIRCLE_EAGER, ours=True, seconds=11.0, violation=2e-6, steps=9),
    )
    judged = {bar.text: bar for bar in bars.judge(record)}
    circle = judged["circle, to fused SGD with momentum"]
    eager = judged["circle without kernels, to fused SGD with momentum"]
    overdamped = judged["circle overdamped, to fused SGD"]
    first = judged["first step of a circle optimizer, seconds"]
    (worst,) = [bar for text, bar in judged.items() if text.startswith("largest violation")]
    assert worst.text.endswith("(2 rows ran out of time before, the first after 7)")
    assert (circle.measured, circle.met) == (1.2, True)
    assert (eager.measured, eager.met) == (11.0, False)
    assert (overdamped.measured, overdamped.met) == (None, None)
    assert (first.measured, first.met) == (3.0, False)
    assert (worst.measured, worst.met) == (2e-6, False)


def test_an_ensemble_has_to_be_faster_than_its_loop():
    times = {seeds.LOOP: 3.0, seeds.ENSEMBLE: 0.01, seeds.NOISY: 0.1}
    times |= {seeds.ADLALA_LOOP: 9.0, seeds.ADLALA: 0.3}
    many = [Row("g", name, series=seeds.SERIES, x=100, seconds=t) for name, t in times.items()]
    one = [Row("g", seeds.LOOP, series=seeds.SERIES, x=1, seconds=7.0)]
    found = [(bar.measured, bar.met) for bar in bars.judge(record_of(*one, *many)) if bar.work]
    assert found == [
        (pytest.approx(300.0), True),
        (pytest.approx(30.0), False),
        (pytest.approx(30.0), True),
    ]
    assert presenting.limit(bars.judge(record_of(*many))[0]) == "≥ 150"


def test_small_matrices_are_judged_as_a_stack_and_alone():
    series = works.work_one(TINY).series
    record = record_of(
        Row("c", works.POGO_STACKED, seconds=1.0),
        Row("c", works.ORTHOGONAL_STACKED, ours=True, seconds=0.95),
        Row("c", works.ORTHOGONAL, ours=True, seconds=0.97),
        Row("c", works.POGO, series=series, seconds=0.5),
        Row("c", works.ORTHOGONAL, ours=True, series=series, seconds=0.6),
    )
    found = [(bar.measured, bar.met) for bar in bars.judge(record) if "POGO" in bar.text]
    assert found == [(0.95, False), (0.97, True), (1.2, False)]


def test_powers_are_fitted_to_the_larger_sizes():
    rows = [
        Row("f", "x", series=scaling.SIDE, x=side, seconds=1e-9 * side**3 + (side < 256) * 1.0)
        for side in (32, 64, 256, 512, 1024)
    ]
    assert scaling.slopes(rows)[scaling.SIDE]["x"] == pytest.approx(3.0)


def test_the_picture_has_the_ratios_and_times_of_the_record():
    rows = [
        Row("a", "slow", baseline="fast", ratio=3.0),
        Row("a", "not run", note="absent"),
        Row("a", "quick", ours=True, baseline="fast", ratio=0.5),
        *[Row("f", "one", series=scaling.SIDE, x=n, seconds=n / 1e4) for n in (256.0, 512.0)],
    ]
    slopes = {scaling.SIDE: {"one": 1.0}}
    record = Record({}, {}, {"a": "steps", "f": "scaling"}, rows, slopes)
    ratios, times = plot.draw(record).axes[:2]
    assert [bar.get_x() + bar.get_width() for bar in ratios.patches] == [0.5, 3.0]
    assert [text.get_text() for text in ratios.get_yticklabels()] == ["quick", "slow"]
    assert ratios.get_xlabel() == "time over that of fast"
    line, _ = times.get_lines()  # the other marks where the fit begins
    assert line.get_xydata().tolist() == [
        [256.0, pytest.approx(25.6)],
        [512.0, pytest.approx(51.2)],
    ]
    assert line.get_label() == "one: power 1.00"


# --- the page in the documentation --------------------------------------------------------


def test_page_is_in_step_with_the_results():
    record = Record.load(ROOT / "benchmarks" / "results" / "bench.json")
    for name, page in presenting.docs_pages(record).items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page
    assert (ROOT / "benchmarks" / "results" / "bench.png").is_file()
    assert list(record.works) == list(LETTERS)


def test_every_work_has_a_row_with_another_lr_in_every_step() -> None:
    """Nobody saw that such steps took the slow route: all rows had a constant lr."""
    makers = (works.work_a, works.work_b, works.work_c, works.work_d)
    for work in [make(works.QUICK) for make in makers]:
        labels = [entry.label for entry in work.entries if entry.ours]
        assert any(label.endswith(works.SCHEDULED) for label in labels), work.letter


def test_a_schedule_changes_lr_in_every_step() -> None:
    weight = torch.nn.Parameter(torch.zeros(3, 2))
    optimizer = CoLA([weight], lr=0.1, momentum=0.9)
    weight.grad = torch.ones(3, 2)
    step, rates = under_schedule(optimizer), []
    for _ in range(3):
        step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert 0.1 > rates[0] > rates[1] > rates[2]
    assert int(optimizer.state[weight]["step"]) == 3
