"""The built documentation site: images have texts, links have targets, and pages fit a phone.

PEGASOS_SITE names the folder: ``python -m sphinx -W -b html docs docs/_build/html``, then
``PEGASOS_SITE=docs/_build/html pytest tests/test_site.py``.
"""

import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import threading
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

import pytest

SITE = Path(os.environ.get("PEGASOS_SITE", "")).resolve()
if "PEGASOS_SITE" not in os.environ:
    pytest.skip("PEGASOS_SITE does not name a built site", allow_module_level=True)
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if not path.relative_to(SITE).parts[0].startswith("_")
)
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)


class Page(HTMLParser):
    """Images, links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.images, self.links, self.anchors = [], [], {""}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values.get("id")} | ({values.get("name")} if tag == "a" else set())
        if tag == "img":
            self.images.append(values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


@pytest.fixture(scope="module")
def pages():
    assert len(PAGES) > 20
    return {name: Page(SITE / name) for name in PAGES}


def test_every_image_has_a_text(pages):
    without = [
        (name, image.get("src"))
        for name, page in pages.items()
        for image in page.images
        # Those of the gallery's index stand beside their title, and need none.
        if not (image.get("alt") or "").strip() and "_thumb." not in image["src"]
    ]
    assert not without
    assert sum(len(page.images) for page in pages.values()) > 10


def test_every_link_within_the_site_has_a_target(pages):
    dead, n_links = [], 0
    for name, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, anchor = urldefrag(link)
            target = (SITE / name).parent / unquote(path) if path else SITE / name
            target = (target / "index.html" if target.is_dir() else target).resolve()
            n_links += 1
            known = pages.get(target.relative_to(SITE).as_posix())
            if not target.exists() or (known and unquote(anchor) not in known.anchors):
                dead.append((name, link))
    assert not dead
    assert n_links > 500


def test_a_class_links_to_its_own_methods(pages):
    links = pages["api/pegasos.PegasosClassifier.html"].links
    assert "#pegasos.PegasosClassifier.fit" in links
    assert "#pegasos.PegasosClassifier.decision_function" in links
    assert sum(link.startswith("pegasos.fit.html#") for link in links) == 1  # See also
    assert not any(link.startswith("pegasos.decision_function.html#") for link in links)


needs_browser = pytest.mark.skipif(BROWSER is None, reason="neither Chromium nor Chrome is there")


@needs_browser
@pytest.mark.parametrize(
    ("query", "first", "also"),
    [
        ("regression", "choosing", "api/pegasos.PegasosRegressor"),
        ("probability", "choosing", "gallery/plot_calibration"),
        ("out of core", "larger_than_memory", "gallery/plot_partial_fit"),
        ("imbalanced classes", "choosing", "index"),
        ("outlier", "choosing", "gallery/plot_one_class"),
        ("LogisticRegression", "coming_from", "api/pegasos.PegasosClassifier"),
        ("Ctrl-C", "guarantees", "command_line"),
    ],
)
def test_the_search_finds_what_people_look_for(query, first, also, tmp_path):
    shown = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
         "--virtual-time-budget=10000", "--dump-dom",
         f"{(SITE / 'search.html').as_uri()}?q={quote(query)}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r'<li class="kind-\w+"><a href="(.+?)\.html', shown)
    assert found[0] == first
    assert also in found


# Loads every page in a frame of each width, and reports what does not fit or fails.
LOOK = """<!doctype html><body><script>
(async () => {
  const found = [];
  for (const [width, theme] of [[390, "light"], [1280, "dark"]]) for (const page of PAGES) {
    localStorage.setItem("mode", theme);
    localStorage.setItem("theme", theme);
    const tell = (what) => found.push([page, width, String(what).slice(0, 200)]);
    const frame = document.createElement("iframe");
    frame.style = `border: 0; height: 900px; width: ${width}px`;
    frame.src = "/" + page;
    const loaded = new Promise((resolve) => { frame.onload = resolve; });
    document.body.append(frame);
    const inside = frame.contentWindow;
    inside.addEventListener("error", (event) => tell("error: " + event.message));
    inside.console.error = (...what) => tell("console: " + what);
    await loaded;
    const text = frame.contentDocument;
    if (inside.MathJax?.startup) await inside.MathJax.startup.promise;
    await new Promise((resolve) => setTimeout(resolve, 20));
    const root = text.documentElement;
    if (root.scrollWidth > root.clientWidth) tell(`is ${root.scrollWidth} pixels wide`);
    for (const image of text.images)
      if (image.complete && !image.naturalWidth) tell("no image: " + image.src);
    for (const formula of text.querySelectorAll("mjx-container, span.math")) {
      if (formula.scrollWidth > formula.clientWidth + 1 &&
          inside.getComputedStyle(formula).overflowX === "auto")
        tell("a formula scrolls: " + formula.textContent);
      const right = formula.getBoundingClientRect().right;
      if (right > width && !formula.closest("table"))
        tell("a formula is cut: " + formula.textContent);
    }
    // What a box cuts off cannot be read, but for boxes that scroll.
    const scrolls = (box) => box && !box.matches(".bd-article") &&
      (["auto", "scroll"].includes(inside.getComputedStyle(box).overflowX) ||
       scrolls(box.parentElement));
    const kinds = "h1, h2, h3, p, li, dt, dd, code, pre, table, img";
    for (const box of text.querySelectorAll(`.bd-article :is(${kinds})`))
      if (box.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(box.parentElement))
        tell("cut: " + box.textContent);
    frame.remove();
  }
  return found;
})().catch((error) => [String(error)])
  .then((found) => fetch("/found", { method: "POST", body: JSON.stringify(found) }));
</script></body>"""


@needs_browser
def test_pages_fit_a_phone_and_a_desktop_in_a_browser(tmp_path):
    answers = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=SITE)

        def log_message(self, *arguments):
            pass

        def do_GET(self):
            if self.path != "/look":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(LOOK.replace("PAGES", json.dumps(PAGES)).encode())

        def do_POST(self):
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             f"--user-data-dir={tmp_path}", f"http://127.0.0.1:{server.server_port}/look"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            found = answers.get(timeout=600)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    by_page = defaultdict(list)
    for page, *what in found:
        by_page[page].append(what)
    assert not by_page
