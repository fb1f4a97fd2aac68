"""Plain English: retired terms stay away."""

import re
import subprocess

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


def files():
    """Return the tracked text files."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [name for name in listed if not OTHERS.search(name) and (ROOT / name).is_file()]


def test_retired_terms_are_replaced_by_those_of_the_field():
    """A term may continue on the next line, also of a comment."""
    patterns = {re.compile(term.replace(" ", " +")): use for term, use in RETIRED.items()}
    found = []
    for name in files():
        kept = EXEMPT.sub("", (ROOT / name).read_text(errors="replace"))
        line = re.sub(r"\n[ \t]*(#'?|//|\*)?[ \t]*", lambda m: " " * len(m[0]), kept).lower()
        for pattern, use in patterns.items():
            found += [
                f"{name}:{kept.count(chr(10), 0, match.start()) + 1}: {match[0]!r} is {use!r}"
                for match in pattern.finditer(line)
            ]
    assert found == []
