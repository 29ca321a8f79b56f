"""Write docs/results.md and its figures from the ledger in results/.

    python -m tools.make_results

The same ledger and recipes give the same bytes, as long as matplotlib is the same. A figure that has nothing to show is
taken away.
"""

from pathlib import Path

from tools.results.figures import draw
from tools.results.page import write_page
from tools.results.runs import Runs
from tools.results.series import FIGURES

ROOT = Path(__file__).parents[1]


def make_results(results: Path, docs: Path) -> None:
    """Write the page and its figures into the folder docs."""
    runs = Runs.read(results)
    folder = docs / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        (folder / f"{name}.svg").unlink(missing_ok=True)
    for name, svg in draw(runs).items():
        (folder / f"{name}.svg").write_text(svg)
    (docs / "results.md").write_text(write_page(runs))


if __name__ == "__main__":
    make_results(ROOT / "results", ROOT / "docs")
