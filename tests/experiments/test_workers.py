import ast
import os
import subprocess
import sys

from colangevin.experiments.workers import run_all

# A spawned process imports the main module again, and under pytest that is not this file.
SCRIPT = """
import os, time
from colangevin.experiments.workers import run_all

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

    results = run_all(count, [(3, False), (10**6, False)], report)
    try:
        run_all(count, [(3, True), (10**6, False)], lambda index, done: True)
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

    assert run_all(work, [3], report) == [(os.getpid(), [True, False, False])]
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
