import ast
import os
import subprocess
import sys

from colangevin.lab.runner.workers import run_queue

# A spawned process imports the main module again, and under pytest that is not this file.
SCRIPT = """
import os, time
from colangevin.lab.runner.workers import run_queue

def count(task, keep_going):
    limit, fails = task
    for done in range(1, limit + 1):
        time.sleep(0.01)
        if fails:
            os._exit(3)
        if not keep_going(done):
            return os.getpid(), done
    return os.getpid(), limit

def main():
    seen = []

    def report(index, done):
        seen.append((index, done))
        # Whichever process is quicker: the first finishes, and only then is the second stopped.
        return (0, 3) not in seen or done < 5

    found = run_queue(count, [(3, False), (10**6, False)], report, 2)
    results = [found[0], found[1]]
    try:
        run_queue(count, [(3, True), (10**6, False)], lambda index, done: True, 2)
        error = None
    except RuntimeError as raised:
        error = str(raised)
    print({"me": os.getpid(), "results": results, "seen": seen, "error": error})

if __name__ == "__main__":
    main()
"""


def test_one_task_stays_in_this_process():
    seen = []

    def work(task, keep_going):
        return os.getpid(), [keep_going(done) for done in range(task)]

    def report(index, done):
        seen.append((index, done))
        return done < 1

    assert run_queue(work, [3], report, 2) == {0: (os.getpid(), [True, False, False])}
    assert seen == [(0, 0), (0, 1), (0, 2)]


def test_several_tasks_run_in_processes_of_their_own(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout)
    (first, finished), (second, stopped) = found["results"]
    assert len({found["me"], first, second}) == 3
    assert finished == 3
    assert 5 <= stopped < 10**6
    assert [done for index, done in found["seen"] if index == 0] == [1, 2, 3]
    assert [done for index, done in found["seen"] if index == 1] == list(range(1, stopped + 1))
    assert found["error"] == "a worker process ended without a result"


QUEUE = """
import os, time
from colangevin.lab.runner.workers import run_queue

def work(task, keep_going):
    if task == "bad":
        raise ValueError("a bad task")
    if task == "full":
        raise OSError("cannot write to here: No space left on device")
    for done in range(1, 4 if task == "short" else 10**6):
        time.sleep(0.01)
        if not keep_going(done):
            return os.getpid(), "stopped"
    return os.getpid(), task

def main():
    six = run_queue(work, ["short"] * 6, lambda index, done: True, 2)
    started = set()

    def report(index, done):
        started.add(index)
        return len(started - {-1}) < 2

    stopped = run_queue(work, ["long"] * 4, report, 2)
    try:
        run_queue(work, ["bad", "long"], lambda index, done: True, 2)
        error = None
    except ValueError as raised:
        error = str(raised)
    try:
        run_queue(work, ["full", "long"], lambda index, done: True, 2)
        full = None
    except OSError as raised:
        full = str(raised)
    print({"six": six, "stopped": stopped, "error": error, "full": full})

if __name__ == "__main__":
    main()
"""


def test_a_queue_shares_tasks_out_over_few_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(QUEUE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout)
    assert sorted(found["six"]) == list(range(6))
    assert len({process for process, _ in found["six"].values()}) == 2
    assert {result for _, result in found["stopped"].values()} == {"stopped"}
    assert set(found["stopped"]) == {0, 1}, "no task is begun after the end was asked for"
    assert found["error"] == "a bad task"
    assert found["full"] == "cannot write to here: No space left on device"
    assert done.stderr.count("Traceback") == 1, "of the bad task; a full disk is no mistake"


def test_a_queue_in_this_process_begins_nothing_after_a_no():
    def work(task, keep_going):
        return task if keep_going(1) else "stopped"

    assert run_queue(work, "abc", lambda index, done: index < 1, 1) == {0: "a", 1: "stopped"}
