"""Code of a page, run block by block; `python -m tests.executed PAGE` writes its output there.

A block in ```python or ```r is followed by its output in ```text. So is one in ```sh that is to
run: the output is that of its last command, and the page omits a list of files at its end, which
depends on R. All blocks of a language run in one program, in an empty folder.

`...` in an output stands for any text, such as a time or lines left out. A block with a title, as
```text title="shortened", is not compared.
"""

import argparse
import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```(python|r|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FILES = re.compile(r"\n\n(?:[\w/.-]+\n)+\Z")
# The last command of a block, which a backslash may continue.
LAST = re.compile(r"(?:.*\\\n)*.*\n\Z")
PROGRAMS = {"python": [sys.executable, "-"], "r": ["Rscript", "--vanilla", "-"],
            "sh": ["bash"]}  # fmt: skip
# Printed between the outputs of blocks.
MARK = "--- end of a block ---"
AFTER = {"python": f'\nprint("{MARK}")\n', "r": f'\ncat("{MARK}\\n")\n',
         "sh": f'\necho "{MARK}"\n'}  # fmt: skip


def outputs(page: str, folder: Path) -> list[str]:
    """Run the blocks of a page; return their outputs, those that agree as the page shows them."""
    found = [*BLOCK.finditer(page)]
    blocks = [(each[1], each[2]) for each in found if _runs(each)]
    languages = {language for language, _ in blocks}
    printed = {language: _run(language, blocks, folder) for language in languages}
    real = [printed[each[1]].pop(0) if _runs(each) else "" for each in found]
    return [
        text if _agree(text, output) else output
        for text, output in zip(shown(page), real, strict=True)
    ]


def shown(page: str) -> list[str]:
    """Return the outputs that a page shows."""
    return [found[3] or "" for found in BLOCK.finditer(page)]


def written(page: str, folder: Path) -> str:
    """Return a page with the outputs of its blocks."""
    found = iter(outputs(page, folder))

    def block(match: re.Match[str]) -> str:
        output = next(found)
        text = f"\n```text\n{output}```\n" if match[3] is not None else ""
        return f"```{match[1]}\n{match[2]}```\n{text}"

    return BLOCK.sub(block, page)


def _agree(text: str, output: str) -> bool:
    return doctest.OutputChecker().check_output(text, output, doctest.ELLIPSIS)


def _runs(block: re.Match[str]) -> bool:
    return block[1] != "sh" or block[3] is not None


def _run(language: str, blocks: list[tuple[str, str]], folder: Path) -> list[str]:
    texts = [_last(text) if name == "sh" else text for name, text in blocks if name == language]
    code = "".join(text + AFTER[language] for text in texts)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        PROGRAMS[language], input=code, cwd=folder, env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    printed = done.stdout.split(f"{MARK}\n")[:-1]
    if language == "sh":
        printed = [FILES.sub("\n", text) for text in printed]
    return printed


def _last(commands: str) -> str:
    """Return commands of which only the last one prints its output."""
    match = LAST.search(commands)
    assert match, commands
    first = commands[: match.start()]
    return f"{{\n{first}}} >/dev/null\n{match[0]}" if first else commands


def main() -> None:
    """Write the outputs of the code of pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.executed", description=main.__doc__)
    parser.add_argument("pages", nargs="+", type=Path, help="pages to update")
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as empty:
            page.write_text(written(page.read_text(), Path(empty)))


if __name__ == "__main__":
    main()
