"""Screenshots of pages of `goodalloc view`, for the guide: `make screenshots` makes them anew.

Needs the extra `view`, and Chromium or Chrome. It takes minutes, most of them for the replays;
`python .docs/screenshots.py round` makes only the pictures that it names.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from goodalloc.experiments.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterable

PICTURES = Path(__file__).resolve().parent / "pictures"

#: Width of a screenshot in pixels: that of a page and its margins.
WIDTH = 1200

#: What makes the page of each picture, its last command, and how much of the page is shown.
PAGES = {
    "round": (
        ("solve medium-disturbed --out best.json",),
        "view medium-disturbed --allocation best.json",
        1300,
    ),
    "replay": (
        ("simulate --policies pollux,tiresias --load 0.5 --out days",),
        "view days",
        1950,
    ),
    "library": (
        ("library run --solver greedy --name mine --core --without modes --out submission",),
        "view submission",
        785,
    ),
}

#: The picture that is stored in grey, too.
IN_GREY = "round"


def browser() -> str | None:
    """The program of Chromium or Chrome; None if there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def screenshot(program: str, page: Path, picture: Path, size: tuple[int, int]) -> str:
    """Draw a page from disk in a window of this size, and return what the browser had to say."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += [f"--window-size={size[0]},{size[1]}", "--hide-scrollbars"]
    options += ["--virtual-time-budget=8000", "--enable-logging=stderr", "--v=0"]
    with tempfile.TemporaryDirectory() as profile:
        options.append(f"--user-data-dir={profile}")
        done = subprocess.run(
            [program, *options, f"--screenshot={picture}", page.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return done.stderr


def reduced(picture: Image.Image) -> Image.Image:
    """A picture without the white below what it shows, in at most 256 colours."""
    ink = np.flatnonzero((np.asarray(picture.convert("L")) < 250).any(axis=1))
    cut = picture.crop((0, 0, picture.width, min(int(ink[-1]) + 10, picture.height)))
    return cut.quantize(256, dither=Image.Dither.NONE)


def make_pictures(folder: Path, program: str, chosen: Iterable[str]) -> None:
    """Make the chosen pages in an empty folder, and store their pictures."""
    PICTURES.mkdir(exist_ok=True)
    names = {"best.json", "days", "submission"}
    for name in chosen:
        before, view, height = PAGES[name]
        page, shot = folder / f"{name}.html", folder / f"{name}.png"
        for command in (*before, f"{view} --out {page}"):
            words = [str(folder / word) if word in names else word for word in command.split()]
            if main(words) != 0:
                raise RuntimeError(f"goodalloc {command} failed.")
        screenshot(program, page, shot, (WIDTH, height))
        with Image.open(shot) as taken:
            picture = taken.convert("RGB")
        reduced(picture).save(PICTURES / f"{name}.png", optimize=True)
        if name == IN_GREY:
            grey = reduced(picture.convert("L").convert("RGB"))
            grey.save(PICTURES / f"{name}_grey.png", optimize=True)


if __name__ == "__main__":
    found = browser()
    if found is None:
        raise SystemExit("Screenshots need Chromium or Chrome; neither was found.")
    with tempfile.TemporaryDirectory() as scratch:
        make_pictures(Path(scratch), found, sys.argv[1:] or PAGES)
