"""The page at `/` against the real server: its routes, and the page itself in a real Chromium.

The browser tests are skipped where there is no `chromium`; Debian has it as a package of that name.
"""

import re
import shutil
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from served import serving

import datamux
from datamux.serve.keys import KeyFile
from datamux.serve.service import Service, read_card
from datamux.serve.settings import Settings
from datamux.zoo.sentences import NEWS, OPINIONS

CHROMIUM = shutil.which("chromium")
browsing = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; on Debian: apt-get install chromium")
EMOJI = "😀 Anna Smith moved to Paris 🇫🇷."
HOSTILE = "<img src=x onerror=alert(1)> & <b>good</b> 'film' \"plot\""


@pytest.fixture(scope="module")
def classifier():
    with serving("sentiment") as address:
        yield address


@pytest.fixture(scope="module")
def tagger():
    with serving("ner") as address:
        yield address


# The routes


def ask(address: str, **question: object) -> httpx.Response:
    return httpx.post(f"{address}/playground/answers", json=question, timeout=60)


def test_the_pages_and_their_files_are_served_safely(classifier):
    files: set[str] = set()
    for path in ("/", "/docs"):
        page = httpx.get(classifier + path)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-cache"
        assert page.headers["content-security-policy"].startswith("default-src 'self';")
        files |= set(re.findall(r'(?:href|src)="(playground/[^"]+)"', page.text))
    assert len(files) == 4
    seen = set()
    while files:
        name = files.pop()
        file = httpx.get(f"{classifier}/{name}")
        assert file.status_code == 200, name
        assert "immutable" in file.headers["cache-control"]
        assert re.search(r"\?v=[0-9a-f]{12}$", name), "a file that changes must get a new address"
        assert file.headers["content-security-policy"].startswith("default-src 'self';")
        seen.add(name)
        files |= {f"playground/{found}" for found in re.findall(r'from "\./([^"]+)"', file.text)} - seen
    folder = Path(__file__).parents[2] / "src/datamux/serve/playground"
    assert {name.partition("?")[0] for name in seen} == {
        f"playground/{file.name}" for file in folder.iterdir() if file.suffix != ".html"
    }
    assert httpx.head(f"{classifier}/").status_code == 200


def test_scripts_never_write_html():
    for file in (Path(__file__).parents[2] / "src/datamux/serve/playground").glob("*.js"):
        found = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://(?!www\.w3\.org)", file.read_text()
        )
        assert found is None, f"{file.name}: {found}"


def test_each_text_has_its_place_and_both_answers(classifier):
    found = ask(classifier, texts=OPINIONS, group_size=5, seed=0).json()
    assert [answer["text_number"] for answer in found["answers"]] == list(range(len(OPINIONS)))
    assert [(answer["group"], answer["slot"]) for answer in found["answers"]] == [divmod(i, 5) for i in range(20)]
    for answer in found["answers"]:
        assert answer["label"] in ("negative", "positive")
        assert answer["changed"] == (answer["label"] != answer["alone"]["label"])
    assert found["flips"] == sum(answer["changed"] for answer in found["answers"])
    assert found["group_size"] == 5
    assert found["seconds"] > 0
    assert found["alone_seconds"] > 0


def test_the_answers_are_those_of_the_model_with_the_same_neighbours(classifier):
    predictor = datamux.load("sentiment")

    def scores(numbers: list[int], group_size: int) -> list[float]:
        rows = predictor.texts.window([OPINIONS[number] for number in numbers]).rows
        logits = predictor.runtime.logits(rows.batch(list(range(len(numbers)))), group_size)
        return logits.softmax(-1).max(-1).values.tolist()

    found = ask(classifier, texts=OPINIONS, group_size=20, seed=3).json()["answers"]
    assert [answer["alone"]["score"] for answer in found] == pytest.approx(scores(list(range(20)), 1), abs=1e-4)
    by_slot = sorted(found, key=lambda answer: answer["slot"])
    together = scores([answer["text_number"] for answer in by_slot], 20)
    assert [answer["score"] for answer in by_slot] == pytest.approx(together, abs=1e-4)


def test_another_seed_means_other_neighbours_and_the_same_alone(classifier):
    first, second, again = (ask(classifier, texts=OPINIONS, group_size=5, seed=seed).json() for seed in (1, 2, 1))
    place = [[(answer["group"], answer["slot"]) for answer in found["answers"]] for found in (first, second, again)]
    assert place[0] != place[1]
    assert place[0] == place[2]
    alone = [[answer["alone"]["label"] for answer in found["answers"]] for found in (first, second)]
    assert alone[0] == alone[1]
    assert first["answers"] == again["answers"]


def test_a_tagger_tells_spans(tagger):
    found = ask(tagger, texts=[EMOJI, "nothing to see here"], group_size=2).json()["answers"]
    assert [EMOJI[span["start"] : span["end"]] for span in found[0]["spans"]] == [s["word"] for s in found[0]["spans"]]
    assert "Paris" in [span["word"] for span in found[0]["spans"]]
    assert found[1]["spans"] == []
    assert httpx.get(f"{tagger}/playground/examples").json()["texts"] == list(NEWS)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"texts": [], "group_size": 2}, "texts"),
        ({"texts": ["a"] * 257, "group_size": 2}, "texts"),
        ({"texts": ["a"], "group_size": 0}, "group_size"),
        ({"texts": ["a"], "group_size": 21}, "1 to 20"),
        ({"texts": ["a"], "group_size": 2, "seed": -1}, "seed"),
        ({"texts": [1], "group_size": 2}, "texts"),
        ({"group_size": 2}, "texts"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(classifier, question, says):
    answer = ask(classifier, **question)
    assert answer.status_code == 422
    assert says in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"texts": ["\\ud800"], "group_size": 1}'])
def test_nonsense_is_refused(classifier, body):
    answer = httpx.post(f"{classifier}/playground/answers", content=body)
    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize("text", ["", " ", "\x00", "a" * 100_000, "\u202e\u0301" * 50])
def test_strange_texts_are_answered(classifier, text):
    assert ask(classifier, texts=[text, "a good film"], group_size=2).status_code == 200


def test_group_sizes_between_two_gears_work(classifier):
    found = ask(classifier, texts=OPINIONS, group_size=7).json()
    assert max(answer["slot"] for answer in found["answers"]) == 6


def test_the_body_limit_holds(classifier):
    answer = ask(classifier, texts=["a" * 20_000] * 200, group_size=1)
    assert answer.status_code == 413


def test_the_live_numbers_follow_what_happens(classifier):
    ask(classifier, texts=OPINIONS, group_size=20)
    stats = httpx.get(f"{classifier}/playground/stats").json()
    assert stats["queue"] == 0
    assert stats["texts_per_second"] > 0
    assert 0 < stats["p50"] <= stats["p95"]
    assert max(second["group_size"] for second in stats["history"]) == 20
    assert not any("tenant" in second for second in stats["history"])


def test_a_key_is_wanted_where_the_server_has_keys(tmp_path):
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("anna")
    with serving("sentiment", keys=str(tmp_path / "keys.json")) as address:
        assert httpx.get(f"{address}/").status_code == 200
        assert httpx.get(f"{address}/playground/stats").status_code == 401
        assert ask(address, texts=["a"], group_size=1).status_code == 401
        assert httpx.get(f"{address}/playground/stats", headers={"authorization": f"Bearer {key}"}).status_code == 200


# The page


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """An open page, its answers from the server, and everything that went wrong in it."""

    def __init__(self, browser, address: str, *, wait: bool = True, **options) -> None:
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page.set_default_timeout(20_000)
        self.problems: list[str] = []
        self.answers: list[dict] = []
        host = urlsplit(address).netloc
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda r: self.problems.append(r.url) if urlsplit(r.url).netloc != host else None)
        self.page.on("response", lambda r: self.problems.append(f"{r.url}: {r.status}") if r.status >= 400 else None)
        self.page.goto(f"{address}/")
        if wait:
            self.page.wait_for_selector("tbody tr")

    def doing(self, act) -> dict:
        """What the server answers to an act of the user, after the page has shown it."""
        with self.page.expect_response("**/playground/answers") as waiting:
            act()
        found = waiting.value.json()
        self.page.wait_for_function("() => !document.body.classList.contains('busy')")
        return found

    def type(self, *lines: str) -> dict:
        self.page.fill("#texts", "\n".join(lines))
        return self.doing(lambda: self.page.click("#answer"))

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def drop(self, name: str, content: str) -> None:
        """Drop a file on the card, as a mouse would."""
        data = self.page.evaluate_handle(
            """([name, content]) => {
                const data = new DataTransfer();
                data.items.add(new File([content], name));
                return data;
            }""",
            [name, content],
        )
        self.page.dispatch_event("#drop", "drop", {"dataTransfer": data})


@pytest.fixture
def visit(browser):
    visits: list[Visit] = []

    def open_page(address: str, **options) -> Visit:
        visits.append(Visit(browser, address, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        each.page.close()
        assert each.problems == [], "errors in the console, requests elsewhere, or failed requests"


def in_browser(test):
    return pytest.mark.slow(browsing(test))


@in_browser
def test_a_newcomer_sees_examples_answers_and_what_it_is_about(visit, classifier):
    v = visit(classifier)
    assert v.page.locator("tbody tr").count() == len(OPINIONS)
    assert v.texts("tbody .text") == list(OPINIONS)
    assert "up to 20 texts" in v.page.inner_text("#intro")
    assert v.page.inner_text("#model") == "sentiment: Is an English sentence negative or positive?"
    assert v.page.inner_text("#summary").startswith("20 texts in 4 groups of up to 5.")
    assert v.texts("#groups .name") == ["A", "B", "C", "D"]
    assert v.texts(".place")[:6] == [*(f"Group A, slot {slot}" for slot in range(1, 6)), "Group B, slot 1"]


@in_browser
def test_the_page_of_routes_lists_them_with_commands_that_work(visit, classifier, tmp_path):
    v = visit(classifier)
    v.page.goto(f"{classifier}/docs")
    v.page.wait_for_selector(".route")
    assert v.texts(".route h2") == ["POST /predict", "POST /classify", "GET /info", "GET /readyz", "GET /health",
                                    "GET /livez", "GET /metrics"]  # fmt: skip
    command = v.texts(".route pre")[0]
    assert command.startswith(f"curl {classifier}/predict -H 'content-type: application/json'")
    body = command.partition("-d '")[2].removesuffix("'")
    answer = httpx.post(f"{classifier}/predict", content=body, headers={"content-type": "application/json"})
    assert answer.json()[0]["label"] == "positive"
    v.page.screenshot(path=tmp_path / "routes.png")


@in_browser
def test_typed_texts_get_the_servers_answers_beside_them(visit, classifier):
    v = visit(classifier)
    found = v.type("A wonderful film.", "", "  A dull and silly mess.  ", HOSTILE)
    assert v.texts("tbody .text") == ["A wonderful film.", "A dull and silly mess.", HOSTILE]
    assert v.texts(".told .label") == [answer["label"] for answer in found["answers"]]
    assert v.texts(".told .score") == [f"{100 * answer['score']:.1f}%" for answer in found["answers"]]
    for answer, shown in zip(found["answers"], v.texts("td:last-child"), strict=True):
        assert answer["alone"]["label"] in shown
        assert answer["changed"] == shown.startswith("differs")
    assert v.page.locator("#answers img, #answers b").count() == 0
    assert v.page.locator(".cell.empty").count() == 2  # three texts in a group of five


@in_browser
def test_the_slider_changes_the_group_size_and_says_what_it_buys(visit, classifier):
    v = visit(classifier)
    slider = v.page.locator("#size")
    slider.focus()
    found = v.doing(lambda: v.page.keyboard.press("End"))
    assert found["group_size"] == 20
    assert v.page.inner_text("#size-now") == "20"
    assert v.texts("#groups .name") == ["A"]
    bought = v.page.inner_text("#buys")
    scores, speed = (read_card("sentiment")[field] for field in ("scores", "speed"))
    accuracy, per_second = f"{100 * scores['20']:.1f}%", [speed[k]["texts_per_second"] for k in ("1", "20")]
    assert accuracy in bought
    assert f"{100 * (scores['1'] - scores['20']):.1f} points below one per pass" in bought
    assert f"{per_second[1] / per_second[0]:.1f} times one per pass" in bought
    assert f"{100 * read_card('sentiment')['flips']['20']:.1f}%" in bought
    spoken = f"20 per pass: Accuracy {accuracy}, {per_second[1]:,.0f} texts per second"
    assert slider.get_attribute("aria-valuetext") == spoken
    found = v.doing(lambda: v.page.keyboard.press("Home"))
    assert found["group_size"] == 1
    assert v.page.locator("#groups .name").count() == 20
    v.page.click("#neighbours")
    assert "no neighbours" in v.page.inner_text("#summary")


@in_browser
def test_edited_texts_are_not_compared_with_the_old_ones(visit, classifier):
    v = visit(classifier)
    v.page.fill("#texts", "The worst film.\nThe best film.")
    v.doing(lambda: v.page.click("#neighbours"))
    assert v.page.inner_text("#summary").startswith("2 texts in 1 group of up to 5.")
    assert v.page.locator("tr.moved").count() == 0


@in_browser
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_other_neighbours_mark_exactly_the_answers_that_changed(visit, request, kind):
    def gist(answer):
        return answer.get("label") or [(s["start"], s["end"], s["entity_group"]) for s in answer["spans"]]

    v = visit(request.getfixturevalue(kind))
    v.page.focus("#size")
    before = v.doing(lambda: v.page.keyboard.press("End"))
    changes = 0
    for _ in range(25):
        after = v.doing(lambda: v.page.click("#neighbours"))
        moved = [
            a["text_number"] + 1 for a, b in zip(after["answers"], before["answers"], strict=True) if gist(a) != gist(b)
        ]
        shown = [
            int(row.removeprefix("text-")) for row in v.page.eval_on_selector_all("tr.moved", "r => r.map(e => e.id)")
        ]
        assert shown == moved
        assert sorted(int(cell.split()[0]) for cell in v.texts(".cell.changed a")) == moved
        summary = v.page.inner_text("#summary")
        words = f"{len(moved)} answer{'s' * (len(moved) > 1)} of 20 changed" if moved else "none of the 20 answers"
        assert words in summary
        assert v.page.locator("tr.differs").count() == after["flips"]
        changes += len(moved)
        before = after
        if changes >= 3:
            break
    assert changes, "25 regroupings of 20 texts changed no answer; the page cannot have shown one"


@in_browser
def test_a_csv_is_dropped_and_its_column_chosen(visit, classifier):
    v = visit(classifier)
    table = 'id,review,place\n1,"A warm, funny ""film"".",Rome\n2,"Dull\nand long.",Oslo\n3,Lovely.,Bonn\n'
    v.doing(lambda: v.drop("reviews.csv", table))
    assert v.texts("tbody .text") == ['A warm, funny "film".', "Dull and long.", "Lovely."]
    assert v.texts("#column option") == ["id", "review", "place"]
    assert v.page.inner_text("#file-note") == "3 texts from reviews.csv."
    v.doing(lambda: v.page.select_option("#column", label="place"))
    assert v.texts("tbody .text") == ["Rome", "Oslo", "Bonn"]
    v.doing(lambda: v.page.uncheck("#first-row"))
    assert v.texts("tbody .text") == ["place", "Rome", "Oslo", "Bonn"]


@in_browser
def test_other_files_are_read_as_well(visit, classifier):
    v = visit(classifier)
    v.doing(lambda: v.drop("lines.txt", "\ufeffOne film.\r\n\r\nAnother film.\r\n"))
    assert v.texts("tbody .text") == ["One film.", "Another film."]
    assert v.page.is_hidden("#table")
    v.doing(lambda: v.drop("semi.csv", "a;b\n1;A long and lovely film about a river\n"))
    assert v.texts("tbody .text") == ["A long and lovely film about a river"]
    v.doing(
        lambda: v.page.set_input_files(
            "#file", {"name": "many.txt", "mimeType": "text/plain", "buffer": b"film\n" * 300}
        )
    )
    assert v.page.inner_text("#file-note") == "many.txt has 300 texts; the first 256 are here."
    assert v.page.locator("tbody tr").count() == 256
    v.drop("empty.csv", "")
    v.page.wait_for_function("() => document.getElementById('file-note').textContent === 'empty.csv is empty.'")


@in_browser
def test_a_taggers_spans_stand_in_the_text(visit, tagger):
    v = visit(tagger)
    found = v.type(EMOJI, "nothing to see here")
    words = [span["word"] for span in found["answers"][0]["spans"]]
    assert words
    marks = v.page.eval_on_selector_all("mark", "all => all.map(m => [m.firstChild.textContent, m.dataset.kind])")
    assert marks == [[span["word"], span["entity_group"]] for span in found["answers"][0]["spans"]]
    assert v.page.locator("tbody tr").nth(1).locator(".spans").inner_text() == "nothing found"


@in_browser
def test_the_keyboard_is_enough(visit, classifier):
    v = visit(classifier)
    press = v.page.keyboard.press

    def focused() -> str:
        return v.page.evaluate("document.activeElement.id || document.activeElement.className")

    def tab_to(name: str) -> None:
        for _ in range(12):
            if focused() == name:
                break
            press("Tab")
        assert focused() == name
        outline = v.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"the focus on {name} cannot be seen"

    tab_to("skip")
    tab_to("theme")
    tab_to("texts")
    press("Control+a")
    v.page.keyboard.type("Good film.\nBad film.\nDull film.")
    found = v.doing(lambda: press("Control+Enter"))
    assert len(found["answers"]) == 3
    tab_to("size")
    assert v.doing(lambda: press("ArrowLeft"))["group_size"] == 2
    tab_to("neighbours")
    v.doing(lambda: press("Enter"))
    tab_to("order")
    press("ArrowDown")
    assert v.texts(".place") == sorted(v.texts(".place"))
    press("Shift+Tab")
    numbers = [v.page.evaluate("() => document.activeElement.textContent")]
    press("ArrowRight")
    numbers.append(v.page.evaluate("() => document.activeElement.textContent"))
    assert [number.rstrip("≠") for number in numbers] == [cell.split()[0] for cell in v.texts(".cell a")][:2]
    press("Enter")
    assert focused() == f"text-{numbers[1].rstrip('≠')}"


@in_browser
def test_everything_that_can_be_used_has_a_name(visit, classifier):
    v = visit(classifier)
    unnamed = v.page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, a, img, svg[role=img]')].filter((e) =>
            !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim() || e.hasAttribute('alt'))
        ).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    assert v.page.get_attribute("#summary", "aria-live") == "polite"


CONTRAST = """() => {
    const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const over = (colours) => {
        pen.clearRect(0, 0, 1, 1);
        for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const bad = [];
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || element.closest('svg, noscript, option, .hidden, .skip') || !element.checkVisibility()) continue;
        const papers = [];
        for (let e = element; e; e = e.parentElement) papers.unshift(getComputedStyle(e).backgroundColor);
        const paper = light(over(papers));
        const ink = light(over([...papers, getComputedStyle(element).color]));
        const ratio = (Math.max(paper, ink) + 0.05) / (Math.min(paper, ink) + 0.05);
        const name = `${element.tagName}.${element.className} "${element.textContent.slice(0, 20)}"`;
        if (ratio < 4.5) bad.push(`${name}: ${ratio.toFixed(2)}`);
    }
    return bad;
}"""


TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter((e) => !e.closest('svg, .skip, thead') && e.getBoundingClientRect().right > innerWidth)
    .map((e) => `${e.tagName}.${e.className}`)"""


@in_browser
@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_it_fits_the_screen_and_can_be_read(visit, request, theme, width, kind, tmp_path):
    v = visit(request.getfixturevalue(kind), color_scheme=theme, viewport={"width": width, "height": 740})
    v.type(*(NEWS if kind == "tagger" else OPINIONS) * 2, "x" * 300)
    for _ in range(3):
        v.doing(lambda: v.page.click("#neighbours"))
    assert v.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert v.page.evaluate(TOO_WIDE) == []  # what would be cut off without a scroll bar
    assert v.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == theme
    v.page.wait_for_timeout(400)  # colours move for a quarter of a second
    assert v.page.evaluate(CONTRAST) == []


@in_browser
def test_the_theme_can_be_switched(visit, classifier):
    v = visit(classifier, color_scheme="dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    dark = v.page.evaluate(paper)
    v.page.click("#theme")
    assert v.page.evaluate(paper) != dark
    v.page.click("#theme")
    assert v.page.evaluate(paper) == dark


@in_browser
def test_the_live_charts_show_the_traffic(visit, classifier):
    v = visit(classifier)
    v.page.click("#traffic")
    v.page.wait_for_function(
        "() => document.getElementById('live-note').textContent.includes('were answered')", timeout=60_000
    )
    v.page.wait_for_timeout(1500)
    heights = v.page.eval_on_selector_all(
        "#live .bars.second", "all => all.map(bar => Number(bar.getAttribute('height')))"
    )
    assert len(set(heights)) > 1, "the group size did not follow the load"
    assert v.page.locator("#live path.line").count() > 1
    assert "within" in v.texts("#live .value")[2]


def fulfil(route, **told) -> None:
    route.fulfill(**told)


@in_browser
def test_problems_are_told_in_words(visit, classifier):
    v = visit(classifier)
    v.page.fill("#texts", "  \n ")
    v.page.click("#answer")
    assert v.page.inner_text("#problem") == "There is no text yet. Type one, or use the examples."
    v.type("good")
    assert v.page.is_hidden("#problem")
    cases = {
        429: "The server is busy. Try again in 7 seconds.",
        413: "That is more text than the server takes at once. Try fewer or shorter texts.",
        500: "The server could not answer this: the model failed on this text.",
    }
    for status, words in cases.items():
        told = {"json": {"error": "the model failed on this text"}, "headers": {"retry-after": "7"}}
        v.page.route("**/playground/answers", partial(fulfil, status=status, **told))
        v.page.click("#answer")
        v.page.wait_for_function("words => document.getElementById('problem').textContent === words", arg=words)
        v.page.unroute("**/playground/answers")
    v.page.route("**/playground/answers", lambda route: route.abort())
    v.page.click("#answer")
    v.page.wait_for_selector("text=The server does not answer. Is it still running?")
    v.problems.clear()  # the browser itself notes these in its console


@in_browser
def test_a_key_is_asked_for_and_kept_in_memory_only(visit, tmp_path):
    key = KeyFile(tmp_path / "keys.json").add("anna")
    with serving("sentiment", keys=str(tmp_path / "keys.json")) as address:
        v = visit(address, wait=False)
        v.page.wait_for_selector("#key:focus")
        assert "This server wants a key." in v.page.inner_text("#key-form")
        assert v.page.is_hidden("#problem")
        v.page.fill("#key", "wrong")
        v.page.keyboard.press("Enter")
        v.page.wait_for_selector("text=The server does not know this API key.")
        v.page.fill("#key", key)
        v.page.keyboard.press("Enter")
        v.page.wait_for_selector("tbody tr")
        assert v.page.is_hidden("#key-form")
        kept = v.page.evaluate(
            "JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage}) + document.cookie"
        )
        assert kept == "{}{}"
        v.page.close()  # before the server stops
        v.problems.clear()  # the refused requests


@in_browser
def test_a_model_without_measurements_says_so(visit, classifier):
    service = Service(datamux.load("sentiment"), settings=Settings(port=0, no_keys=True))
    with serving(service) as address:
        v = visit(address)
        assert v.page.inner_text("#buys").count("unknown") == 3
        assert "came without measurements" in v.page.inner_text("#buys-note")
        v.page.close()  # before the server stops: the page asks it every second


@in_browser
def test_a_plain_model_has_nothing_to_choose(visit):
    with serving("sentiment-plain") as address:
        v = visit(address)
        assert v.page.is_disabled("#size")
        assert "one text per pass" in v.page.inner_text("#buys-note")
        assert v.page.inner_text("#intro").startswith("This server reads one text per pass")
        v.page.close()  # before the server stops: the page asks it every second
