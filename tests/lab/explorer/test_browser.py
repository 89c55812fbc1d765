"""The page in a real browser: what must never break; all else is under tests/integrations."""

from typing import Any

import pytest
import torch

pytest.importorskip("uvicorn", reason="the extra explore is not installed")

from colangevin.lab.explorer.readings import rounded, scores
from colangevin.lab.explorer.runs import Training
from colangevin.lab.explorer.session import SCORES
from colangevin.lab.explorer.spec import parse
from explorer_browser import Page, browser
from explorer_serving import server, threads, wait_for

SPEC: dict[str, Any] = {
    "data": {"kind": "circles", "noise": 0.1, "train": 60, "test": 200},
    "network": {"width": 24},
    "training": {"batch": 10, "seed": 5},
    "a": {"method": "cola", "h": 0.3, "tau": 1e-6, "input": "circle", "input_radius": 2},
}
STEPS = 400


def link() -> str:
    pairs = [f"{s}.{name}={value}" for s, own in SPEC.items() for name, value in own.items()]
    return f"#{'&'.join(pairs)}&steps={STEPS}"


def test_a_link_trains_to_a_known_accuracy_and_the_code_repeats_it() -> None:
    torch.set_num_threads(1)
    training = Training(parse(SPEC))
    for _ in range(STEPS):
        training.step()
    expected = scores(training.runs["a"], training.points)[0]
    assert expected[3] is not None
    assert expected[3] > 0.95
    with server() as running, browser() as chromium:
        page = Page(chromium, running.address + link())
        page.wait("document.body.dataset.steps === value", str(STEPS))
        page.paused()
        assert page.score("a", "testLoss") == expected[1]
        assert page.score("a", "testAccuracy") == expected[3]
        page.page.click("#export-code")
        page.page.wait_for_selector("#code-dialog[open]")
        code = page.page.text_content("#code-text")
        page.page.click("#code-close")
        namespace: dict[str, Any] = {}
        exec(compile(code, "exported", "exec"), namespace)
        found = [rounded(namespace["results"]["A", 5][name]) for name in SCORES]
        assert found == expected

        page.page.click("#play")
        page.wait("Number(document.body.dataset.steps) > value", STEPS)
        page.page.keyboard.press("Escape")
        page.page.click("#play")
        page.paused()
        assert int(page.data("steps")) > STEPS
        assert len(threads()) == 1
        page.close()
        assert wait_for(lambda: not threads(), 30.0)
