"""The documentation's site is built, without a broken link."""

import os
import subprocess
import sys
from pathlib import Path


def test_the_site_is_whole(root, tmp_path):
    mkdocs = Path(sys.executable).parent / "mkdocs"
    words = ["build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        [mkdocs, *words], cwd=root, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site/reference/commands.html").read_text()
    assert "--loss-percent" in reference
    assert "<!-- commands -->" not in reference
    pages = {str(path.relative_to(root / "docs").with_suffix("")) for path in
             (root / "docs").rglob("*.md")}  # fmt: skip
    assert {page for page in pages if not (tmp_path / f"site/{page}.html").is_file()} == set()
