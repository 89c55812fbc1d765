import json
import math

import pytest
import torch

from colangevin.errors import RecordError
from colangevin.lab.runner import job_log
from colangevin.lab.runner.experiment import Answer, Job, Table
from colangevin.lab.runner.job_log import Log, pack, unpack
from colangevin.lab.runner.records import read_record, read_records
from colangevin.lab.runner.values import plain

JOB = Job("walk", "a", {"steps": 3, "lr": 1 / 3, "radii": (1.0, 5.0)})


def on_disk(folder):
    return read_record(folder / "a.json")


def test_numbers_are_short_and_what_is_not_finite_is_null(tmp_path):
    log = Log(JOB, tmp_path)
    log.append(epoch=100, loss=torch.tensor([1 / 3, math.nan, -math.inf], dtype=torch.float64))
    log.finish(count=12345678, accuracy=[0.123456789, 100.0])
    record = on_disk(tmp_path)
    assert record.history == {"epoch": [100], "loss": [[0.333333, None, None]]}
    assert record.final == {"count": 12345678, "accuracy": [0.123457, 100.0]}
    assert " " not in (tmp_path / "a.json").read_text().replace(record.versions["cpu"], "")


def test_settings_keep_all_their_digits(tmp_path):
    Log(JOB, tmp_path).start()
    assert on_disk(tmp_path).settings == {"steps": 3, "lr": 1 / 3, "radii": [1.0, 5.0]}


def test_a_column_may_begin_late_and_pause(tmp_path):
    log = Log(JOB, tmp_path)
    log.append(epoch=0)
    log.append(epoch=1, loss=0.5)
    log.append(epoch=2)
    assert log.record.history == {"epoch": [0, 1, 2], "loss": [None, 0.5, None]}


def test_load_goes_back_to_what_was_saved(tmp_path):
    log = Log(JOB, tmp_path)
    assert log.load() is None
    log.append(epoch=1)
    log.save({"epoch": 1, "weights": [torch.arange(3.0)], "names": {"a": (1, None)}})
    log.append(epoch=2)  # lost with the process

    again = Log(JOB, tmp_path)
    state = again.load()
    assert state["weights"][0].tolist() == [0.0, 1.0, 2.0]
    assert state["names"] == {"a": (1, None)}
    assert again.record.history == {"epoch": [1]}
    again.append(epoch=2)
    again.finish()
    record = on_disk(tmp_path)
    assert record.history == {"epoch": [1, 2]}
    assert record.complete
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_killed_between_checkpoint_and_record_the_checkpoint_counts(tmp_path):
    log = Log(JOB, tmp_path)
    log.append(epoch=1)
    log.save({"epoch": 1})
    before = (tmp_path / "a.json").read_bytes()
    log.append(epoch=2)
    log.save({"epoch": 2})
    (tmp_path / "a.json").write_bytes(before)

    again = Log(JOB, tmp_path)
    assert again.load() == {"epoch": 2}
    assert again.record.history == {"epoch": [1, 2]}


def test_wall_clock_adds_up(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(job_log.time, "perf_counter", lambda: now[0])
    log = Log(JOB, tmp_path)
    now[0] = 5.0
    log.save({})
    now[0] = 100.0
    again = Log(JOB, tmp_path)
    now[0] = 200.0
    again.load()
    now[0] = 207.0
    assert again.record.seconds == 12.0


def test_checkpoint_of_other_settings_is_refused(tmp_path):
    Log(JOB, tmp_path).save({})
    with pytest.raises(RecordError, match="other settings"):
        Log(Job("walk", "a", {"steps": 4}), tmp_path).load()


def test_a_failed_save_leaves_the_last_one(tmp_path):
    log = Log(JOB, tmp_path)
    log.save({"epoch": 1})
    with pytest.raises(Exception, match="pickle"):
        log.save({"epoch": lambda: 2})
    assert Log(JOB, tmp_path).load() == {"epoch": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.checkpoint.pt", "a.json"]


def test_keep_going_asks_rarely_and_remembers_a_no(tmp_path):
    asked = []
    log = Log(JOB, tmp_path, progress=lambda done: asked.append(done) or len(asked) < 2)
    assert [log.keep_going(step / 1000) for step in range(1000)][-1]
    assert len(asked) < 100
    log = Log(JOB, tmp_path, progress=lambda done: False)
    assert not log.keep_going(0.5)
    assert not log.keep_going(0.6)
    assert not log.going


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64])
def test_packed_tensors_come_back(shape, dtype):
    tensor = torch.randint(0, 255, shape).to(dtype)
    found = unpack(json.loads(json.dumps(pack(tensor))))
    assert found.shape == tensor.shape
    assert torch.equal(found.to(dtype), tensor)


@pytest.mark.parametrize("text", ["", "float16:2;AAAA", "int3:2;", "float16:2", "uint8:x;!"])
def test_other_text_is_no_tensor(text):
    with pytest.raises(ValueError, match="not a packed tensor"):
        unpack(text)


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="object"):
        plain({"a": [object()]})


def test_unknown_verdicts_and_ragged_tables_are_refused():
    with pytest.raises(ValueError, match="verdict must be one of"):
        Answer("perhaps")
    with pytest.raises(ValueError, match="2 columns"):
        Table(["a", "b"], [["1"]])


def test_records_are_in_the_order_of_the_jobs(tmp_path):
    for order, name in enumerate(["zebra", "ant"]):
        Log(Job("walk", name, {"runs": 1, "kind": name}), tmp_path, order=order).finish(x=order)
    records = read_records(tmp_path)
    assert list(records) == ["zebra", "ant"]
    assert records.settings == {"runs": 1}
    assert records.text("ant", "x") == "1.0 (1 run)"
    with pytest.raises(KeyError, match="has no 'y'; it has x"):
        records.mean_std("ant", "y")


def test_checkpoints_take_a_small_share_of_the_time(tmp_path, monkeypatch):
    """A checkpoint every ten seconds; one that takes 2 s is due again after 40."""
    now = [0.0]
    monkeypatch.setattr(job_log.time, "perf_counter", lambda: now[0])
    log, saved = Log(JOB, tmp_path), []

    def save(content, file):
        saved.append(now[0])
        now[0] += 2.0 if now[0] > 20 else 0.0

    monkeypatch.setattr(job_log.torch, "save", save)
    while now[0] < 100:
        now[0] += 1.0
        assert log.advance(now[0] / 100, dict)
    assert saved == [11.0, 22.0, 65.0]


def test_a_checkpoint_where_the_user_wants_an_end(tmp_path):
    log = Log(JOB, tmp_path, progress=lambda done: False)
    assert not log.advance(0.5, lambda: {"step": 3})
    assert Log(JOB, tmp_path).load() == {"step": 3}
