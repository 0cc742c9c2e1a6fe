"""Makes docs/report.png, the picture of the README: the first screen of a report. `make picture` runs it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1200, 720
MOST_MILLISECONDS = 600_000  # a busy machine draws slowly


def main(report: Path, picture: Path) -> None:
    """A screenshot of what a reader sees first."""
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=alone, timeout=MOST_MILLISECONDS
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.resolve().as_uri(), timeout=MOST_MILLISECONDS)
        page.screenshot(path=picture, timeout=MOST_MILLISECONDS)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
