"""Every control of the explorer's page, in a real browser."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra explore is not installed")

from colangevin.lab.explorer.fields import Choice, Flag, Number
from colangevin.lab.explorer.presets import PRESETS
from colangevin.lab.explorer.spec import (
    DATA,
    DATA_USES,
    LAYERS,
    METHODS,
    NETWORK,
    RUN,
    TRAINING,
    USED,
)
from explorer_browser import Page, browser
from explorer_serving import Running, server, threads, wait_for

SMALL = "network.width=12&data.train=40&data.test=40"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with server(grace=1.0) as found:
        yield found
    assert wait_for(lambda: not threads())


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def page(chromium: Any, running: Running) -> Iterator[Page]:
    assert wait_for(lambda: len(running.registry) == 0)
    found = Page(chromium, f"{running.address}#{SMALL}")
    yield found
    found.close()
    assert wait_for(lambda: not threads())


def record(running: Running) -> dict[str, Any]:
    (session,) = running.registry._sessions.values()
    found: dict[str, Any] = session.record().result(20)
    return found


def settles(running: Running, section: str, name: str, value: Any) -> bool:
    return wait_for(lambda: record(running)["start"][section][name] == value)


def notice(page: Page) -> str:
    return str(page.page.text_content("#notice"))


# --- controls -----------------------------------------------------------------------------------


def others(field: Number | Choice | Flag) -> Any:
    """A value that is allowed and differs from the default."""
    if isinstance(field, Choice):
        return next(option for option in field.options if option != field.default)
    if isinstance(field, Flag):
        return not field.default
    if field.least != field.default:
        return field.least
    return field.least + 1 if field.integer else field.least * 2 or 0.01


def put(page: Page, section: str, name: str, field: Any, value: Any) -> None:
    control = f"{section}-{name}"
    if isinstance(field, Choice):
        page.choose(control, value)
    elif isinstance(field, Flag):
        page.page.set_checked(f"#{control}", value)
    else:
        page.fill(control, value)


@pytest.mark.parametrize("kind", [kind for kind in DATA_USES if kind != "drawn"])
def test_controls_of_the_data(page: Page, running: Running, kind: str) -> None:
    page.choose("data-kind", kind)
    assert settles(running, "data", "kind", kind)
    for name, field in DATA.items():
        if name in ("kind", "points"):
            continue
        visible = page.page.is_visible(f"#data-{name}")
        assert visible == (name in DATA_USES[kind]), name
        if visible:
            value = others(field)
            put(page, "data", name, field, value)
            assert settles(running, "data", name, value), name
    assert notice(page) == ""


def test_controls_of_network_and_training(page: Page, running: Running) -> None:
    for section, fields in (("network", NETWORK), ("training", TRAINING)):
        for name, field in fields.items():
            value = 3 if name in ("depth", "members") else others(field)
            put(page, section, name, field, value)
            assert settles(running, section, name, value), name
    for option in NETWORK["activation"].options:
        page.choose("network-activation", option)
        assert settles(running, "network", "activation", option)
    assert notice(page) == ""


@pytest.mark.parametrize("method", METHODS)
def test_controls_of_a_method(page: Page, running: Running, method: str) -> None:
    page.fill("network-depth", 2)
    page.choose("a-method", method)
    assert settles(running, "a", "method", method)
    if "overdamped" in USED[method]:
        page.page.set_checked("#a-overdamped", False)
        assert settles(running, "a", "overdamped", False)
    names = [name for name in RUN if name not in ("method", "overdamped", "direction")]
    for name in sorted(names, key=lambda name: name.endswith("_radius")):
        role = name.removesuffix("_radius")
        visible = page.page.is_visible(f"#a-{name}")
        assert visible == (name in USED[method]), name
        if visible:
            value = "circle" if role in LAYERS and role == name else others(RUN[name])
            put(page, "a", name, RUN[name], value)
            assert settles(running, "a", name, value), name
    page.page.click("#step-many")
    page.wait("Number(document.body.dataset.steps) === 100")
    assert notice(page) == ""


@pytest.mark.parametrize("direction", ["sign", "adam", "polar"])
def test_a_direction_takes_the_temperature_away(
    page: Page, running: Running, direction: str
) -> None:
    page.choose("a-method", "cola")
    page.fill("a-tau", 0.001)
    assert settles(running, "a", "tau", 0.001)
    page.choose("a-direction", direction)
    assert settles(running, "a", "direction", direction)
    assert record(running)["start"]["a"]["tau"] == 0
    assert page.page.is_disabled("#a-tau")
    assert "only along the gradient" in str(page.page.text_content("label[for=a-tau]"))
    assert str(page.page.text_content("#name-a")) == f"CoLA along {direction}"
    page.page.click("#step-many")
    page.wait("Number(document.body.dataset.steps) === 100")
    page.choose("a-direction", "gradient")
    assert settles(running, "a", "direction", "gradient")
    assert page.page.is_enabled("#a-tau")
    assert page.page.text_content("label[for=a-tau]") == "Temperature τ"
    assert notice(page) == ""


def test_constraints_and_numbers_change_while_it_runs(page: Page, running: Running) -> None:
    page.choose("a-method", "cola")
    assert settles(running, "a", "method", "cola")
    page.page.click("#play")
    page.wait("Number(document.body.dataset.steps) > 5")
    for kind in ("circle", "sphere", "unit", "orthogonal", "norm", "none"):
        page.choose("a-input", kind)
        assert wait_for(
            lambda kind=kind: (
                record(running)["changes"][-1:]
                and (  # type: ignore[misc]
                    record(running)["changes"][-1]["values"].get("input") == kind
                )
            )
        )
    page.page.focus("#a-h ~ input[type=range]")
    page.page.keyboard.press("ArrowRight")
    assert wait_for(lambda: "h" in record(running)["changes"][-1]["values"])
    found = record(running)
    assert found["start"]["a"]["input"] == "none"
    assert found["stopped"] == {"a": [None]}
    steps = int(page.data("steps"))
    page.wait("Number(document.body.dataset.steps) > value", steps)  # it has not begun again
    assert page.page.text_content("#state") == "running"


def test_a_bad_number_is_refused_in_words(page: Page, running: Running) -> None:
    before = record(running)
    page.fill("network-width", 5000)
    assert "from 1 to 500" in notice(page)
    assert page.page.get_attribute("#network-width", "aria-invalid") == "true"
    assert record(running) == before
    page.fill("network-width", 9)
    assert settles(running, "network", "width", 9)
    assert notice(page) == ""


# --- presets and playing ------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_presets_run_and_show_everything(page: Page, running: Running, name: str) -> None:
    page.page.click(f"#presets button[data-preset={name}]")
    page.wait(
        "document.body.dataset.state === 'playing' && Number(document.body.dataset.steps) > 20"
    )
    assert page.page.is_visible("#run-b")
    assert page.page.text_content("#story-text") == PRESETS[name].story
    assert page.page.get_attribute(f"#presets button[data-preset={name}]", "aria-pressed") == "true"
    page.page.click("#opening-button")  # from the recorded run to the live one
    page.wait("document.getElementById('state').textContent === 'running'")
    if page.page.is_visible("#layer"):
        for layer in page.page.eval_on_selector_all(
            "#layer option", "(all) => all.map((o) => o.value)"
        ):
            page.choose("layer", layer)
    page.page.click("#play")
    page.paused()
    for canvas in page.page.query_selector_all("canvas"):
        assert canvas.evaluate(
            "(c) => c.width * c.height > 0 && Boolean(c.ariaLabel || c.closest('button'))"
        )
    assert f"preset={name}" in page.address()
    assert notice(page) == ""
    page.page.click("#story-close")
    assert not page.page.is_visible("#story")


def test_a_change_before_the_answer_to_a_preset_is_kept(page: Page, running: Running) -> None:
    page.page.evaluate(
        """() => {
          document.querySelector("#presets button[data-preset=circles]").click();
          const compare = document.getElementById("compare");
          compare.checked = false;
          compare.dispatchEvent(new Event("change"));
        }"""
    )
    page.wait("Number(document.body.dataset.steps) > 5")
    assert not page.page.is_visible("#run-b")
    assert not page.page.is_checked("#compare")


def test_buttons_and_keys(page: Page, running: Running) -> None:
    page.page.click("#step")
    page.wait("document.body.dataset.steps === '1'")
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '101'")
    page.page.focus("#stage")
    page.page.keyboard.press("s")
    page.wait("document.body.dataset.steps === '102'")
    page.page.keyboard.press("Space")
    page.wait("document.body.dataset.state === 'playing'")
    page.page.keyboard.press("Space")
    page.paused()
    page.page.keyboard.press("r")
    page.wait("document.body.dataset.steps === '0'")
    page.page.keyboard.press("c")
    page.wait("!document.getElementById('run-b').hidden")
    page.page.keyboard.press("c")
    page.wait("document.getElementById('run-b').hidden")
    page.page.keyboard.press("?")
    assert page.page.is_visible("#help-dialog")
    page.page.click("#help-close")
    page.page.click("#help")
    page.page.keyboard.press("Escape")
    assert not page.page.is_visible("#help-dialog")
    page.page.click("#reset")
    page.choose("pace", "1")
    page.page.click("#play")
    page.wait("Number(document.body.dataset.steps) > 3")
    page.page.click("#play")
    page.paused()
    assert int(page.data("steps")) < 200


def test_two_runs_and_their_tabs(page: Page, running: Running) -> None:
    page.page.check("#compare")
    page.wait("!document.getElementById('run-b').hidden")
    assert page.page.is_visible("#fields-b")
    page.choose("b-method", "lol")
    assert settles(running, "b", "method", "lol")
    page.page.focus("#tab-b")
    page.page.keyboard.press("ArrowLeft")
    assert page.page.is_visible("#fields-a")
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")
    assert page.page.text_content("#name-b") == "LOL"
    assert page.score("a", "testLoss") != page.score("b", "testLoss")
    page.page.uncheck("#compare")
    assert wait_for(lambda: record(running)["start"]["b"] is None)


def test_small_multiples_choose_the_network_that_is_shown(page: Page, running: Running) -> None:
    page.fill("training-members", 4)
    page.wait("document.querySelectorAll('#multiples-a canvas').length === 4")
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")
    page.page.click("#multiples-a button:nth-child(3)")
    page.wait("document.querySelector('#multiples-a button:nth-child(3)').ariaPressed === 'true'")
    page.page.click("#multiples-a .mean")
    page.wait("document.querySelector('#multiples-a .mean').ariaPressed === 'true'")


def test_the_history_plays_back(page: Page) -> None:
    page.choose("pace", "1")
    page.page.click("#play")
    page.wait("Number(document.body.dataset.steps) > 12")
    page.page.click("#play")
    page.paused()
    last = int(page.data("steps"))
    page.page.focus("#history")
    page.page.keyboard.press("Home")
    page.wait("document.body.dataset.shown === '0'")
    assert page.page.text_content("#steps") == "0"
    page.page.keyboard.press("ArrowRight")
    page.wait("Number(document.body.dataset.shown) > 0")
    page.page.click("#replay")
    page.wait("document.body.dataset.replay === 'yes'")
    page.wait("document.body.dataset.replay === ''")
    page.wait("document.getElementById('steps').textContent === value", str(last))
    page.page.focus("#stage")
    page.page.keyboard.press("ArrowLeft")
    page.wait("!document.getElementById('live').disabled")
    page.page.click("#live")
    page.wait("document.getElementById('steps').textContent === value", str(last))


# --- exports and links --------------------------------------------------------------------------


def test_exports(page: Page, running: Running) -> None:
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")
    with page.page.expect_download() as download:
        page.page.click("#export-picture")
    picture = download.value.path().read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    with page.page.expect_download() as download:
        page.page.click("#export-record")
    assert json.loads(download.value.path().read_text()) == record(running)
    page.page.click("#export-code")
    with page.page.expect_download() as download:
        page.page.click("#code-save")
    code = download.value.path().read_text()
    page.page.click("#code-copy")
    assert page.page.evaluate("navigator.clipboard.readText()") == code
    page.page.click("#code-close")
    namespace: dict[str, Any] = {}
    exec(compile(code, "exported", "exec"), namespace)
    assert namespace["results"]["A", 0]["test_loss"] == pytest.approx(
        page.score("a", "testLoss"), rel=1e-5
    )


def test_a_link_repeats_a_training_with_its_changes(
    page: Page, running: Running, chromium: Any
) -> None:
    page.choose("a-method", "cola")
    assert settles(running, "a", "method", "cola")
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")
    page.choose("a-input", "circle")
    page.fill("a-h", 0.2)
    assert wait_for(lambda: record(running)["changes"] != [])
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '200'")
    page.page.click("#copy-link")
    page.wait("document.getElementById('copy-link').textContent === 'Copied'")
    link = page.page.evaluate("navigator.clipboard.readText()")
    other = Page(chromium, link)
    other.wait("document.body.dataset.steps === '200' && document.body.dataset.state === 'paused'")
    for name in ("testLoss", "trainLoss", "testAccuracy"):
        assert other.score("a", name) == page.score("a", name)
    assert other.page.input_value("#a-h") == "0.2"
    other.close()
    page.page.evaluate("(link) => { location.href = link; }", link)  # the same page goes there, too
    page.wait("document.body.dataset.steps === '200' && document.body.dataset.state === 'paused'")


def test_garbage_in_the_address_is_an_error_in_words(running: Running, chromium: Any) -> None:
    page = Page(chromium, f"{running.address}#network.width=1e9&a.method=x&changes=%7B&steps=z")
    assert "must be" in notice(page)
    assert page.page.text_content("#state") == "paused"
    page.context.close()
    refused = [line for line in page.console if "400" not in line]
    assert refused == []
    assert wait_for(lambda: not threads())


# --- drawing ------------------------------------------------------------------------------------


def test_points_are_drawn_by_pointer_and_by_keyboard(page: Page, running: Running) -> None:
    page.choose("data-kind", "drawn")
    page.wait("!document.getElementById('drawing').hidden")
    assert notice(page) == ""
    assert page.page.text_content("#test-words") == "rings"
    before = record(running)["start"]["data"]
    assert before["kind"] != "drawn"  # the sheet is empty: there is nothing to train with yet
    box = page.page.locator("#region-a").bounding_box()
    assert box is not None
    for pen, x in (("draw-0", 0.25), ("draw-1", 0.75)):
        page.page.click(f"#{pen}")
        for y in (0.3, 0.5, 0.7):
            page.page.mouse.click(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
    assert wait_for(lambda: len(record(running)["start"]["data"]["points"]) == 6)
    points = record(running)["start"]["data"]["points"]
    assert [point[2] for point in points] == [0, 0, 0, 1, 1, 1]
    assert points[0][0] == pytest.approx(-0.75, abs=0.02)
    assert points[0][1] == pytest.approx(0.6, abs=0.02)
    page.page.focus("#region-a")
    page.page.keyboard.press("1")
    page.page.keyboard.press("Shift+ArrowLeft")
    page.page.keyboard.press("Enter")
    assert wait_for(lambda: len(record(running)["start"]["data"]["points"]) == 7)
    page.page.keyboard.press("Delete")
    assert wait_for(lambda: len(record(running)["start"]["data"]["points"]) == 6)
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")


# --- the look -----------------------------------------------------------------------------------

NAMELESS = """() => [...document.querySelectorAll("button, select, input, canvas")].filter((e) =>
  e.offsetParent && !e.closest("button > canvas") && !(e.parentElement.tagName === "BUTTON") &&
  !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_every_width_and_theme(running: Running, chromium: Any, width: int, theme: str) -> None:
    assert wait_for(lambda: len(running.registry) == 0)
    view = {"width": width, "height": 800}
    page = Page(chromium, f"{running.address}#preset=adlala", viewport=view, color_scheme=theme)
    page.wait("Number(document.body.dataset.steps) > 20")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.page.evaluate(NAMELESS) == []
    page.page.click("#theme")
    other = "dark" if theme == "light" else "light"
    assert page.page.evaluate("document.documentElement.dataset.theme") == other
    page.page.uncheck("#show-test")
    page.close()
    assert wait_for(lambda: not threads())


def rectangle(page: Page, selector: str) -> dict[str, float]:
    found: dict[str, float] = page.page.evaluate(
        "(s) => document.querySelector(s).getBoundingClientRect().toJSON()", selector
    )
    return found


def test_the_story_is_on_one_screen(running: Running, chromium: Any) -> None:
    view = {"width": 1440, "height": 900}
    page = Page(chromium, f"{running.address}#preset=depth", viewport=view)
    page.wait("document.body.dataset.opening === 'depth'")
    page.wait("document.getElementById('story-told').textContent.includes('test accuracy')")
    for name in ("story", "region-a", "region-b", "network-b", "chart-loss", "chart-accuracy"):
        assert rectangle(page, f"#{name}")["bottom"] <= 900, name
    assert rectangle(page, "#chart-weights")["bottom"] <= 900
    page.close()


def test_on_a_phone_the_regions_are_side_by_side(running: Running, chromium: Any) -> None:
    view = {"width": 390, "height": 844}
    page = Page(chromium, f"{running.address}#preset=depth", viewport=view)
    page.wait("document.body.dataset.opening === 'depth'")
    first, second = (rectangle(page, f"#region-{letter}") for letter in "ab")
    assert first["top"] == second["top"]
    assert first["right"] <= second["left"]
    assert first["width"] > 130
    page.close()


def test_a_recorded_run_plays_while_the_live_one_catches_up(
    running: Running, chromium: Any
) -> None:
    assert wait_for(lambda: len(running.registry) == 0)
    page = Page(chromium, running.address)  # the first preset
    name = next(iter(PRESETS))
    page.wait("document.body.dataset.opening === value", name)
    assert page.page.text_content("#state") == "recorded"
    page.wait("Number(document.body.dataset.shown) > 0")
    page.wait("document.body.dataset.opening === ''")  # after ten seconds it goes live
    page.wait("document.getElementById('state').textContent === 'running'")
    assert int(page.data("steps")) > 0
    page.page.click("#opening-button")  # once more
    page.wait("document.body.dataset.opening === value", name)
    page.page.click("#step")  # whatever the user does ends it
    page.wait("document.body.dataset.opening === ''")
    page.paused()
    page.close()
    assert wait_for(lambda: not threads())


def test_who_wants_no_motion_is_not_shown_any(running: Running, chromium: Any) -> None:
    page = Page(chromium, running.address, reduced_motion="reduce")
    page.wait("document.body.dataset.state === 'playing'")
    assert not page.page.evaluate("document.body.dataset.opening")
    page.close()


def test_words_are_explained(page: Page) -> None:
    page.choose("a-method", "adlala")
    button = page.page.locator("[data-field=tau] .info").first
    assert "exp(−loss/τ)" in str(button.get_attribute("title"))
    button.click()
    assert page.page.is_visible("#words-dialog")
    assert page.page.text_content("#words-list .asked") == "Temperature τ"
    page.page.click("#words-close")
    page.page.locator("[data-field=method] .info").first.click()
    assert page.page.text_content("#words-list .asked") == "AdLaLa"
    page.page.click("#words-close")


def test_cards_without_content_are_not_there(page: Page, running: Running) -> None:
    cards = ("#card-temperature", "#card-violation", "#card-groups", "#card-geometry")
    page.page.click("#step")
    page.wait("document.body.dataset.steps === '1'")
    assert not any(page.page.is_visible(card) for card in cards)  # SGD has none of it
    page.choose("a-method", "adlala")
    assert settles(running, "a", "method", "adlala")
    page.choose("a-input", "circle")
    assert settles(running, "a", "input", "circle")
    page.page.click("#step-many")
    page.wait("document.body.dataset.steps === '100'")
    assert all(page.page.is_visible(card) for card in cards)


def test_the_toolbar_keeps_its_place(page: Page) -> None:
    before = rectangle(page, "#pace")
    page.page.evaluate(
        "() => { steps.textContent = '1,234,567'; rate.textContent = '12,345'; "
        "state.textContent = 'recorded'; fps.textContent = '18'; }"
    )
    assert rectangle(page, "#pace") == before


def test_too_many_pages_are_told_so(running: Running, chromium: Any) -> None:
    assert wait_for(lambda: len(running.registry) == 0)
    pages = [Page(chromium, f"{running.address}#{SMALL}") for _ in range(4)]
    context = chromium.new_context()
    fifth = context.new_page()
    fifth.goto(running.address)
    fifth.wait_for_selector("#notice:not([hidden])")
    assert "close one of them" in str(fifth.text_content("#notice"))
    context.close()
    for page in pages:
        page.close()
    assert wait_for(lambda: not threads())
