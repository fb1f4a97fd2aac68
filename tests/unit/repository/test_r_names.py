"""Names in the report's R code: chapters and scripts do not overwrite each other's."""

import re

from losslab.study import files
from losslab.workflow import DEFINITION, require_defined_once


def defined(code):
    return {name for path in code for name in DEFINITION.findall(path.read_text())}


def test_functions_of_all_studies_are_defined_once(root):
    functions = files.functions(root, files.study_names(root))
    require_defined_once(functions)
    assert len(defined(functions)) > 50


# Assignments in the shared environment, which have no indentation; those of functions have some.
ASSIGNED = re.compile(
    r"^(?:for \()?([A-Za-z.][\w.]*)`? (?:<<?-|=|in) *(function|\\\()?", re.MULTILINE
)
CHUNK = re.compile(r"^```\{r\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def assigned(chapter):
    """Return the names that a chapter's chunks assign, and whether they are functions."""
    code = "".join(CHUNK.findall(chapter.read_text()))
    return {match[1]: bool(match[2]) for match in ASSIGNED.finditer(code)}


def test_assignments_of_chapters_are_found(tmp_path):
    chapter = tmp_path / "_one.qmd"
    chapter.write_text(
        "word <- 1\n\n```{r}\n#| label: a\nnumber <- 1\na.b <- \\(x) x\nsum_of <- function(x) {\n"
        "  inner <- x\n}\nfor (each in 1:2) print(each)\nplain = 3\n```\n"
    )
    assert assigned(chapter) == {
        "number": False, "a.b": True, "sum_of": True, "each": False, "plain": False,
    }  # fmt: skip


def test_no_chapter_gives_a_variable_the_name_of_a_function(root):
    """All chapters run in one environment: later chapters would not find the function."""
    functions = defined(files.functions(root, files.study_names(root)))
    for chapter in (root / "report").glob("*.qmd"):
        assert set(assigned(chapter)) & functions == set(), chapter.name


def test_no_chapter_reuses_a_name_of_another(root):
    """A function of a chapter or a name of the document has one meaning."""
    chapters = {path.name: assigned(path) for path in (root / "report").glob("*.qmd")}
    shared = chapters["index.qmd"]
    for name, its in chapters.items():
        for other, theirs in chapters.items():
            if other == name:
                continue
            functions = {word for word, function in its.items() if function}
            taken = functions & set(theirs)
            if name == "index.qmd":
                taken |= set(shared) & set(theirs)
            assert not taken, f"{other} assigns {sorted(taken)} of {name}"


def test_no_chapter_uses_a_function_of_another(root):
    """The other chapter may be absent from a campaign."""
    chapters = {path: assigned(path) for path in (root / "report").glob("_*.qmd")}
    for chapter, own in chapters.items():
        called = set(re.findall(r"\b([A-Za-z][\w.]*)\(", chapter.read_text()))
        used = called - set(own)
        for other, theirs in chapters.items():
            functions = {name for name, is_function in theirs.items() if is_function}
            assert other == chapter or not used & functions, f"{chapter.name} of {other.name}"


def test_no_script_of_a_study_reuses_a_functions_name(root):
    """Chapters run in the environment of the functions."""
    functions = defined(files.functions(root, files.study_names(root)))
    for code in (root / "analysis" / "studies").glob("*/figures/*.R"):
        assert not defined([code]) & functions, code
    for study in files.study_names(root):
        code = files.tables(root, study)
        assert not defined([code]) & functions, code
