# Run the workflow's scripts and knit the report's chapters in one process, without Snakemake. The
# only argument is a YAML file of jobs. Prints the errors of each job; exits with 1 if there are any.
#
# A job has a folder with the workflow's results/, its `studies`, `draw` (suffixes of the figures'
# files, which are only built without it), and `until`: the last part that it makes, of `studies`
# (statistics, tables and figures), `claims`, and `report`, the default.
arguments <- commandArgs(trailingOnly = TRUE)
jobs <- yaml::read_yaml(arguments[1])
root <- getwd()
for (file in Sys.glob("analysis/R/*.R")) source(file)
library(ggplot2)
suppressPackageStartupMessages(library(dplyr))
one_locale()
begin_script <- function(snakemake) NULL
# Simulated coverage needs no precision here.
coverage_draws <- 4
coverage_resamples <- 20
# This process knits more than once, so names cannot be locked.
lock_names <- function(place) NULL
# Made-up numbers need not agree with the chapters' sentences.
mark_untrue <- function(text, needs, found, place) ""
methods::setClass("Snakemake", slots = c(input = "list", output = "list", params = "list"))
grDevices::pdf(NULL)

draw_figure <- save_figure
build_figure <- function(figure, paths, height_cm, missing, width_cm = NULL) {
  if (NROW(figure$data) == 0) ggplot_build(empty_figure(missing_note(missing)))
  builds_of(figure)
}

failures <- character()
attempt <- function(what, code) {
  script$file <- NULL
  tryCatch(
    suppressWarnings(force(code)),
    error = function(error) {
      words <- c(what, script$file, one_line(conditionMessage(error)))
      failures <<- c(failures, paste(words, collapse = ": "))
    }
  )
}

functions_of <- function(study) {
  files <- Sys.glob(file.path("studies", study, "*.R"))
  files[basename(files) != "tables.R"]
}

# A study's scripts see no functions of other studies, as in the workflow.
run_script <- function(path, input, output, study = character()) {
  environment <- new.env(parent = globalenv())
  for (file in functions_of(study)) source(file, local = environment)
  environment$snakemake <- methods::new(
    "Snakemake", input = input, output = output, params = list(study = study)
  )
  source(path, local = environment)
}

figures_of <- function(study) {
  sub("[.]R$", "", basename(Sys.glob(file.path("studies", study, "figures/*.R"))))
}

analyse_study <- function(job, study) {
  own <- file.path("studies", study)
  inside <- function(...) file.path(job$folder, "results", paste0(...))
  summary <- function(table) inside("summary/", study, "/", table, ".csv")
  published <- \(name) Filter(file.exists, file.path(own, name))
  collected <- c("cells", "replicates", "intervals", "flows", "queue", "criteria")
  described <- yaml::read_yaml(file.path(own, "study.yaml"))
  figures <- if (job$until == "claims") character() else figures_of(study)
  files <- function(suffixes) {
    suffixes <- rep(suffixes, each = length(figures))
    as.list(sprintf("%s/%s/%s.%s", inside("figures"), study, figures, suffixes))
  }
  dir.create(inside("tables/", study), recursive = TRUE, showWarnings = FALSE)
  dir.create(inside("figures/", study), recursive = TRUE, showWarnings = FALSE)
  attempt(paste(job$name, study), run_script(
    "analysis/study.R",
    c(
      list(
        functions = character(), code = file.path(own, "tables.R"),
        figures = sprintf("%s/figures/%s.R", own, figures), algorithms = "config/algorithms.tsv",
        published = published("published.csv"), curves = published("curves.csv")
      ),
      stats::setNames(as.list(summary(collected)), collected)
    ),
    list(
      summary = summary("statistics"), ratios = summary("ratios"),
      invalid = inside("tables/", study, "/invalid.csv"),
      tables = as.list(inside("tables/", study, "/", unlist(described$tables), ".csv")),
      figure = if (!is.null(job$draw)) files(unlist(job$draw)), others = list(),
      described = files(c("csv", "cells.csv", "txt"))
    ),
    study
  ))
}

knit_report <- function(job) {
  folder <- file.path(job$folder, "staging")
  dir.create(folder)
  results <- file.path(job$folder, "results")
  studies <- unlist(job$studies)
  chapters <- c(file.path("studies", studies, "chapter.qmd"), "report/_agreement.qmd")
  file.copy(
    c(
      "config/algorithms.tsv", "report/explained.csv", "report/speed.csv",
      file.path(results, c("summary", "tables", "claims.csv"))
    ),
    folder,
    recursive = TRUE
  )
  # Chapters show figures without reading their content.
  for (study in studies) {
    place <- file.path(folder, "figures", study)
    dir.create(place, recursive = TRUE)
    file.create(file.path(place, paste0(figures_of(study), ".svg")))
  }
  file.create(file.path(
    folder, "figures", c("scoreboard.svg", "agreement_paths.svg", "path.svg")
  ))
  facts <- list(campaign = "made-up", command = "made up", renderer = "nothing")
  jsonlite::write_json(facts, file.path(folder, "report.json"), auto_unbox = TRUE)
  document <- readLines("report/index.qmd")
  text <- unlist(lapply(document, function(line) {
    part <- sub("^\\{\\{< include (.*) >\\}\\}$", "\\1", line)
    if (part == line) {
      return(line)
    }
    if (part != "_chapters.md") {
      return(readLines(file.path("report", part)))
    }
    unlist(lapply(chapters, function(chapter) c(readLines(chapter), "<!-- end of chapter -->")))
  }))
  writeLines(text, file.path(folder, "index.Rmd"))
  old <- setwd(folder)
  on.exit(setwd(old))
  knitr::opts_knit$set(progress = FALSE, root.dir = folder)
  knitr::opts_chunk$set(echo = FALSE, error = FALSE, warning = FALSE, message = FALSE)
  knitr::knit("index.Rmd", "index.md", quiet = TRUE, envir = new.env(parent = globalenv()))
}

compare_studies <- function(job) {
  summaries <- function(table) {
    as.list(file.path(job$folder, "results/summary", unlist(job$studies), paste0(table, ".csv")))
  }
  table <- function(name) file.path(job$folder, "results/tables", paste0(name, ".csv"))
  published <- file.path("studies", unlist(job$studies), "published.csv")
  figures <- outer(c("path", "agreement_paths", "scoreboard"), c("svg", "txt"), paste, sep = ".")
  attempt(paste(job$name, "comparisons"), run_script(
    "analysis/compare.R",
    list(
      functions = character(), algorithms = "config/algorithms.tsv",
      cells = summaries("cells"), replicates = summaries("replicates"),
      statistics = summaries("statistics"),
      claims = as.list(file.path("studies", unlist(job$studies), "claims.yaml")),
      published = as.list(published[file.exists(published)])
    ),
    list(
      claims = file.path(job$folder, "results/claims.csv"),
      seeds = table("agreement_seeds"), paths = table("agreement_paths"),
      windows = table("agreement_windows"), halves = table("agreement_halves"),
      numbers = table("scoreboard_numbers"),
      sources = table("scoreboard_sources"), metrics = table("scoreboard_metrics"),
      coverage = table("coverage"),
      figures = as.list(file.path(job$folder, "results/figures", figures))
    )
  ))
}

jobs <- lapply(jobs, \(job) utils::modifyList(list(until = "report"), job))
for (job in jobs) {
  save_figure <- if (is.null(job$draw)) build_figure else draw_figure
  for (study in unlist(job$studies)) analyse_study(job, study)
}
# What remains is of all studies, whose functions it may use.
for (file in functions_of("*")) source(file)
for (job in Filter(\(job) job$until != "studies", jobs)) {
  save_figure <- if (is.null(job$draw)) build_figure else draw_figure
  compare_studies(job)
  if (job$until == "report") attempt(paste(job$name, "report"), knit_report(job))
}
if (length(failures) > 0) writeLines(failures)
quit(status = min(length(failures), 1))
