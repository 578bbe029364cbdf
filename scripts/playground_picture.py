"""Take the picture of the playground for the docs: the real page, in a real Chromium, with a real server behind it.

Needs Debian's `chromium`. It is not part of `make docs`, because two machines draw letters differently; but that
command notices when the picture shows an older model.
"""

import shutil
import sys
import threading

from pictures import MARK, SCREENSHOT, shown_model
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page, sync_playwright

from datamux.serve.app import make_server
from datamux.serve.service import load_service
from datamux.serve.settings import Settings

SIZE = {"width": 1280, "height": 900}
MOST_SHUFFLES = 30


def start_server() -> str:
    """The address of a server in a thread that ends with this script."""
    ready = threading.Event()
    addresses: list[str] = []
    server = make_server(
        load_service("sentiment", Settings(port=0, no_keys=True)), lambda it: (addresses.append(it), ready.set())[1]
    )
    threading.Thread(target=server.run, daemon=True).start()
    ready.wait()
    return addresses[0]


def show_a_change(page: Page) -> None:
    """Change the neighbours until an answer changes, and show it first."""
    page.wait_for_selector("tbody tr")
    for _ in range(MOST_SHUFFLES):
        with page.expect_response("**/playground/answers"):
            page.click("#neighbours")
        page.wait_for_timeout(300)
        if page.locator("tr.moved").count():
            break
    page.select_option("#order", "changed")
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(400)


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light", device_scale_factor=1.25)
        page.goto(start_server())
        show_a_change(page)
        page.screenshot(path=SCREENSHOT)
        browser.close()
    info = PngInfo()
    info.add_text(MARK, shown_model())  # so that `pictures.py --check` notices when it is out of date
    small = Image.open(SCREENSHOT).convert("RGB").quantize(256)  # a third of the size, and looks the same
    small.save(SCREENSHOT, optimize=True, pnginfo=info)
    print(f"{SCREENSHOT.name}: {SCREENSHOT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
