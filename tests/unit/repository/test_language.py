"""Plain English: retired terms, first lines of docstrings, and long sentences stay away."""

import ast
import functools
import re
import subprocess

import pytest

from tests.conftest import ROOT

# Terms that the field does not use, each with the one to write (docs/reference/glossary.md).
RETIRED = {
    r"\b(a|of) crowds?\b|flows? beside|cell's own flow": "background flows, foreground flow",
    r"\b(guest|kernel|one)s? that waits?\b|waiting guests?\b": "snapshot",
    r"copies of (a|the|its) guests?|copy of (a|the) guest\b": "fork",
    r"\bsure to differ\b|certainly differ": "significantly different",
    r"\bundecided\b": "inconclusive",
    r"\bis (no|not a) number\b|\bare no numbers?\b": "invalid",
    r"\bways? back\b|\bback way\b": "reverse path",
    r"\bloss(es)? strikes?\b|\bstrike the\b": "packets are dropped",
    r"\bdelay lines?\b": "netem link",
    r"\bpromis(e|es|ed)\b": "path specification",
    r"\bparcels?\b": "guest payload",
    r"\bstandby\b": "preloaded program",
    r"\bremed(y|ies)\b": "fix",
    r"\blooks? at the clock\b": "clock read",
    r"\bbring along\b|\bbrought along\b": "user files",
    r"\bby lot\b|\bcoin\b": "at random",
    r"\bhow-manieth\b|\bwhoever\b|\bwhatever becomes\b": "a noun",
    r"\bwhat became of\b|\bwhat becomes of\b": "results, outcome, schedule",
    r"\b(is|are|was|be|been) told\b(?! (apart|from))": "gets, receives, is set",
    r"\bthe least\b(?! (squares|used))|\bat the most\b": "the minimum, at most",
}
# Choices of an axis, which enter seeds and cells' names, and this list.
EXEMPT = re.compile(r"two-fifos|\"undecided\"|`undecided`|`remedy`|\bPromise\b|\[\"promise\"\]")
# Recorded data, words of others, and sources whose bytes enter a kernel's hash.
OTHERS = re.compile(
    r"^(tests/(expected|golden|fixtures/(hostile|programs))/|traces/|config/published/"
    r"|containers/kernel/patches/|algorithms/"
    r"|LICENSE|CODE_OF_CONDUCT|tests/unit/repository/test_language\.py)"
    r"|\.(lock|csv|svg|png|gz|xz|json|patch|min\.js)$"
)
# First words of a clause or of an order to say something, where a summary must stand.
CLAUSES = frozenset(
    [
        "what",
        "whether",
        "that",
        "who",
        "whose",
        "which",
        "where",
        "when",
        "how",
        "of",
        "as",
        "if",
        "whoever",
        "it",
        "its",
        "they",
        "this",
        "tell",
        "tells",
        "say",
        "says",
    ]
)
WORDS_MAX = 35


@functools.cache
def files(*suffixes):
    """Return the tracked text files with one of the suffixes; all of them by default."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    kept = (name for name in listed if not OTHERS.search(name) and (ROOT / name).is_file())
    return [name for name in kept if not suffixes or name.endswith(suffixes)]


@functools.cache
def text(name):
    return (ROOT / name).read_text(errors="replace")


@functools.cache
def joined(content):
    """Return a text without exempt words, as one line, and the same text in lines."""
    kept = EXEMPT.sub("", content)
    return re.sub(r"\n[ \t]*(#'?|//|\*)?[ \t]*", lambda m: " " * len(m[0]), kept).lower(), kept


def lines_with(pattern, content):
    """Return the numbers of the lines where a pattern begins; it may continue on the next line."""
    line, content = joined(content)
    found = re.finditer(pattern.replace(" ", " +"), line)
    return [content.count("\n", 0, match.start()) + 1 for match in found]


@pytest.mark.parametrize("pattern", RETIRED)
def test_retired_terms_are_replaced_by_those_of_the_field(pattern):
    found = [f"{name}:{number}" for name in files() for number in lines_with(pattern, text(name))]
    assert not found, f"write {RETIRED[pattern]!r} instead of {pattern!r}: {' '.join(found)}"


def summaries(name):
    """The place and first line of each docstring of a file."""
    for node in ast.walk(ast.parse(text(name))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield f"{name}:{getattr(node, 'lineno', 1)}", docstring.splitlines()[0]


def test_docstrings_begin_with_an_imperative_or_a_noun():
    found = [
        f"{place}: {first}"
        for name in files(".py")
        for place, first in summaries(name)
        if re.split(r"\W", first, maxsplit=1)[0].lower() in CLAUSES
    ]
    assert not found, "\n".join([f"{len(found)} first lines are clauses:", *found])


def sentences(markdown):
    """The sentences of paragraphs and list items, without code, tables and targets of links."""
    prose = re.sub(r"^---\n.*?^---$|^```.*?^```$|<!--.*?-->|^\|.*?$|^#.*?$", "\n", markdown,
                   flags=re.M | re.S)  # fmt: skip
    prose = re.sub(r"\]\([^)]*\)|`[^`]*`", "]code ", prose)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*+]|\d+\.)\s", prose):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


def test_sentences_of_the_documentation_are_short():
    found = [
        f"{name}: {sentence}"
        for name in files(".md")
        for sentence in sentences(text(name))
        if len(re.findall(r"\w+(?:[-'.]\w+)*", sentence)) > WORDS_MAX
    ]
    assert not found, "\n".join([f"{len(found)} sentences are too long:", *found])


def test_retired_term_is_found_across_lines():
    assert lines_with(r"\bways? back\b", "a\n# on the way\n# back to it\n") == [2]
    assert lines_with(r"\bways? back\b", "always backwards\n") == []


def test_long_sentences_are_found_outside_code():
    long = " ".join(["word"] * (WORDS_MAX + 1)) + "."
    assert [s for s in sentences(f"Short.\n\n{long}\n") if len(s.split()) > WORDS_MAX] == [long]
    assert all(len(s.split()) < 3 for s in sentences(f"```\n{long}\n```\n"))
