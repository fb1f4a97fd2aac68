"""Which files of R functions a figure, a table or a chapter depends on."""

import re
import subprocess

import pytest

from losslab.campaign import rcode
from losslab.errors import LosslabError
from losslab.study import files


def write(folder, **contents):
    paths = []
    for name, text in contents.items():
        path = folder / f"{name}.R"
        path.write_text(text)
        paths.append(path)
    return paths


def needed(folder, text, functions, name="code.R"):
    (folder / name).write_text(text)
    return [path.stem for path in rcode.needed([folder / name], functions)]


@pytest.fixture
def functions(tmp_path):
    return write(
        tmp_path,
        colours='red <- "#D55E00"\nblue <- "#0072B2" # not green()\n',
        deep="deepest <- function(x) x\n",
        means='mean_of <- function(x) {\n  local_name <- deepest(x)\n  "red"\n}\n',
        other="green <- function() 1\n",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x <- mean_of(1)", ["deep", "means"]),
        ("x <- 1 # mean_of(1)", []),
        ("x <- 'mean_of'", []),
        ('x <- "a \\" # b"; green()', ["other"]),
        ('x <- "# no comment"; lapply(y, green)', ["other"]),
        ("x$greener + green_ + a.green", []),
        ("local_name(1)", []),
        ("c(red, blue)", ["colours"]),
    ],
)
def test_names_outside_of_strings_and_comments_count(tmp_path, functions, text, expected):
    assert needed(tmp_path, text, functions) == expected


def test_of_a_chapter_its_code_counts(tmp_path, functions):
    text = "The green line's mean_of.\n\n```{r}\n#| label: red\nx <- deepest(1)\n```\n\n"
    assert needed(tmp_path, text, functions, "code.qmd") == ["deep"]
    assert needed(tmp_path, text + "Is `r green()` more?", functions, "code.qmd") == [
        "deep", "other",
    ]  # fmt: skip


def test_of_a_sentence_what_it_has_in_braces_counts(tmp_path, functions):
    text = "`r paste('{deepest(1)} of', \n'them')`, {green}"
    assert needed(tmp_path, text, functions, "code.qmd") == ["deep"]


def test_a_name_that_two_files_define_is_refused(tmp_path, functions):
    twice = write(tmp_path, again="green <- 2\n")
    with pytest.raises(LosslabError, match=r"found green in .*other.R and .*again.R"):
        rcode.needed([], functions + twice)


def test_two_files_of_one_name_are_refused(tmp_path, functions):
    (tmp_path / "inner").mkdir()
    with pytest.raises(LosslabError, match=r"differ in name, found .*other.R"):
        rcode.needed([], functions + write(tmp_path / "inner", other="violet <- 1\n"))


def test_the_names_are_those_that_r_finds(root):
    library = files.functions(root, files.known(root))
    code = sorted((root / "analysis").rglob("*.R"))
    script = (
        "for (path in commandArgs(TRUE)) for (name in unique(all.names(parse(path))))"
        ' cat(path, name, sep = "\\t", "\\n")'
    )
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", script, *map(str, code)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {tuple(line.split("\t")[:2]) for line in done.stdout.splitlines()}
    defined = rcode.definitions(library)
    assert len(defined) > 50
    by_r = {(path, name) for path, name in found if name in defined}
    ours = {(str(path), name) for path in code for name in rcode.used_names(path)}
    assert by_r - ours == set()


# What a chapter's code assigns in the environment that all share: not in functions, which indent.
ASSIGNED = re.compile(
    r"^(?:for \()?([A-Za-z.][\w.]*)`? (?:<<?-|=|in) *(function|\\\()?", re.MULTILINE
)
CHUNK = re.compile(r"^```\{r\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def assigned(chapter):
    """The names that a chapter's chunks assign, and whether as functions."""
    code = "".join(CHUNK.findall(chapter.read_text()))
    return {match[1]: bool(match[2]) for match in ASSIGNED.finditer(code)}


def test_what_chapters_assign_is_found(tmp_path):
    chapter = tmp_path / "_one.qmd"
    chapter.write_text(
        "word <- 1\n\n```{r}\n#| label: a\nnumber <- 1\na.b <- \\(x) x\nsum_of <- function(x) {\n"
        "  inner <- x\n}\nfor (each in 1:2) print(each)\nplain = 3\n```\n"
    )
    assert assigned(chapter) == {
        "number": False, "a.b": True, "sum_of": True, "each": False, "plain": False,
    }  # fmt: skip


def test_no_chapter_gives_a_variable_the_name_of_a_function(root):
    """All chapters run in one environment: the chapters after it would not find the function."""
    functions = rcode.definitions(files.functions(root, files.known(root)))
    for chapter in (root / "report").glob("*.qmd"):
        assert set(assigned(chapter)) & set(functions) == set(), chapter.name


def test_no_chapter_takes_a_name_from_another(root):
    """A function of one chapter, or what the document itself made for all, means one thing only."""
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
    """The other is not there in every campaign."""
    chapters = {path: assigned(path) for path in (root / "report").glob("_*.qmd")}
    for chapter, own in chapters.items():
        called = set(re.findall(r"\b([A-Za-z][\w.]*)\(", chapter.read_text()))
        used = rcode.used_names(chapter) & called - set(own)
        for other, theirs in chapters.items():
            functions = {name for name, is_function in theirs.items() if is_function}
            assert other == chapter or not used & functions, f"{chapter.name} of {other.name}"


def test_no_script_of_a_study_takes_a_name_of_a_function(root):
    """They are read into the environment that has the functions."""
    functions = rcode.definitions(files.functions(root, files.known(root)))
    for code in (root / "analysis" / "studies").glob("*/figures/*.R"):
        assert not set(rcode.definitions([code])) & set(functions), code
    for study in files.known(root):
        code = files.tables(root, study)
        assert not set(rcode.definitions([code])) & set(functions), code
