"""The report in a real browser, as wide as a phone and as a desk: no errors, no requests, no overflow."""

import os
import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("ARENA_CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium: put `chromium` on PATH or set ARENA_CHROMIUM"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page(browser, built, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
    page.goto(built.html.as_uri(), timeout=120_000)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert troubles == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = """
        [...document.querySelectorAll('p, li, h1, h2, h3, svg, figcaption, dd')]
            .filter(e => !e.closest('.scroll') && !e.parentElement.closest('svg') && e.checkVisibility())
            .filter(e => !e.closest('.skip') && e.getBoundingClientRect().right > innerWidth + 1).length
    """
    assert page.evaluate(outside) == 0
    unnamed = (
        "[...document.querySelectorAll('svg')].filter(s => !s.ariaLabel && s.ariaHidden !== 'true').length"
    )
    assert page.evaluate(unnamed) == 0
    panel = page.locator(".panel svg").first.bounding_box()
    assert panel["width"] > 280
    page.close()


def test_the_reader_chooses_what_tokens_are_coloured_by(browser, built):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(built.html.as_uri(), timeout=120_000)
    scope = page.locator(".microscope").last  # Sokoban, where cispo collapses
    scope.locator(".by-r").focus()
    seen = {}
    for lens in "reaw":  # the arrow keys go from one to the next
        assert scope.locator(f".by-{lens}").is_checked()
        legends = scope.locator(".scale").evaluate_all("all => all.map(e => e.checkVisibility())")
        assert legends == [lens == other for other in "reaw"]
        painted = "all => all.map(e => getComputedStyle(e).backgroundColor)"
        seen[lens] = scope.locator(".tokens span").evaluate_all(painted)
        page.keyboard.press("ArrowRight")
    for lens, colours in seen.items():
        classes = scope.locator(".tokens span").evaluate_all("all => all.map(e => e.className)")
        marked = [any(c.startswith(lens) for c in names.split()) for names in classes]
        assert [c != "rgba(0, 0, 0, 0)" for c in colours] == marked
    assert any(c != "rgba(0, 0, 0, 0)" for c in seen["r"])
    assert seen["r"] != seen["a"]
    page.close()
