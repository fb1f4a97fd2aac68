"""From a figure or table to its data, script, cells and the command that repeats one of them."""

import pytest

from losslab import tracing

CHAPTER = """# Chapter

```{r}
#| include: false
rows <- read_measured("x_rows.csv")
of_row <- function(a) {
  look_up(rows, "mean", algorithm == a)
}
other <- read_measured("x_other.csv")
```

```{r}
#| label: fig-lines
#| fig-cap: "Lines."
knitr::include_graphics("x_lines.svg")
```

Text.

```{r}
#| label: tbl-rows
#| tbl-cap: "Rows."
tibble(Mean = of_row("cubic")) |> show_table()
```

```{r}
#| label: tbl-fair
#| behind: block=fair
#| tbl-cap: "Fair."
other |> show_table()
```

```{r}
#| label: tbl-claims
#| tbl-cap: "Claims."
show_claims(claims)
```

The end.
"""


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "staging"
    folder.mkdir()
    (folder / "x_cells.csv").write_text(
        "study,block,cell,algorithm,loss_percent,n_valid\n"
        "x,main,a,cubic,0.0,3\nx,main,b,cubic,1.0,5\nx,main,c,bbr,1.0,0\nx,fair,d,cubic,0.0,5\nx,gone,,,,\n"
    )
    (folder / "x_replicates.csv").write_text(
        "cell,replicate,valid\na,0,FALSE\na,1,TRUE\nb,0,TRUE\nc,0,FALSE\nd,0,TRUE\n"
    )
    (folder / "x_rows.csv").write_text("algorithm,loss_percent,mean\ncubic,1,2.5\nbbr,1,3.5\n")
    (folder / "x_other.csv").write_text("algorithm,mean\ncubic,0.99\n")
    (folder / "x_lines.cells.csv").write_text("cell\na\nb\n")
    return tracing.Results(folder)


@pytest.fixture
def lines(results, tmp_path):
    chapter = tmp_path / "_x.qmd"
    chapter.write_text(CHAPTER)
    traced = tracing.trace(chapter, "x", results)
    # Errors name a line of the chapter.
    assert [n for n, line in enumerate(traced.splitlines()) if line == "The end."] == [
        n for n, line in enumerate(CHAPTER.splitlines()) if line == "The end."
    ]
    return [line for line in traced.splitlines() if line.startswith('`r "')]


def test_every_figure_and_table_of_data_has_a_line(lines):
    assert len(lines) == 3
    assert all(line.startswith('`r "\\n[') and line.endswith(']{.trace}\\n"`') for line in lines)


def test_a_figure_leads_to_its_files_script_cells_and_a_rerun(lines):
    for words in (
        "[CSV](../figures/x_lines.csv)", "[PDF](../figures/x_lines.pdf)",
        "[x/figures/lines.R](scripts/x/figures/lines.R)", "2 cells, n = 3 to 5",
        "[over time](explorer.html#a=x/a/1)", "\\x60losslab rerun results/cells/x/a/1\\x60",
    ):  # fmt: skip
        assert words in lines[0]


def test_a_table_is_of_the_data_that_its_chunk_reads_and_of_the_cells_that_agree_with_it(lines):
    assert "[x_rows.csv](../tables/x_rows.csv)" in lines[1]
    assert "x_other" not in lines[1]
    assert "[LaTeX](tables/tbl-rows.tex)" in lines[1]
    # The only one with a loss of 1 % and a valid run.
    assert "1 cell, n = 5" in lines[1]
    assert "losslab rerun results/cells/x/b/0" in lines[1]


def test_a_chapter_that_is_of_no_study_has_a_script_of_its_name(results):
    assert "[other.R](scripts/other.R)" in tracing.figure_line("other", "other_paths", results)
    (results.folder / "other_seeds.csv").write_text("study,percent\nx,5\n")
    line = tracing.table_line("other", "tbl-seeds", ["other_seeds"], results)
    assert "[other_seeds.csv](../tables/other_seeds.csv)" in line
    assert "[other.R](scripts/other.R)" in line


def test_a_chapter_may_say_which_cells_a_table_is_of(lines):
    assert "1 cell, n = 5" in lines[2]
    assert "losslab rerun results/cells/x/d/0" in lines[2]
