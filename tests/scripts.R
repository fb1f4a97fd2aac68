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
# This process knits more than once, so names cannot be locked.
lock_names <- function(place) NULL
# Made-up numbers need not agree with the chapters' sentences.
mark_untrue <- function(text, needs, found, place) ""
methods::setClass("Snakemake", slots = c(input = "list", output = "list"))
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
  files <- Sys.glob(file.path("analysis/studies", study, "*.R"))
  files[basename(files) != "tables.R"]
}

# A study's scripts see no functions of other studies, as in the workflow.
run_script <- function(path, input, output, study = character()) {
  environment <- new.env(parent = globalenv())
  for (file in functions_of(study)) source(file, local = environment)
  environment$snakemake <- methods::new("Snakemake", input = input, output = output)
  source(path, local = environment)
}

study_jobs <- function(job, study) {
  inside <- function(...) file.path(job$folder, "results", paste0(...))
  summary <- function(table) inside("summary/", study, table, ".csv")
  published <- file.path("config/published", paste0(study, ".csv"))
  input <- list(
    functions = character(), algorithms = "config/algorithms.tsv",
    published = if (file.exists(published)) published, summary = summary(""),
    curves = Filter(file.exists, file.path("config/published", paste0(study, "_curves.csv"))),
    ratios = summary("_ratios"), cells = summary("_cells"), replicates = summary("_replicates"),
    intervals = summary("_intervals"), flows = summary("_flows"), queue = summary("_queue"),
    criteria = summary("_criteria")
  )
  described <- yaml::read_yaml(file.path("config/studies", paste0(study, ".yaml")))
  dir.create(inside("tables"), showWarnings = FALSE)
  dir.create(inside("figures"), showWarnings = FALSE)
  attempt(paste(job$name, study, "summary"), run_script(
    "analysis/summarise.R", input,
    list(
      summary = summary(""), ratios = summary("_ratios"),
      invalid = inside("tables/", study, "_invalid.csv")
    ),
    study
  ))
  tables <- unlist(described$tables)
  files <- lapply(stats::setNames(tables, tables), function(table) {
    inside("tables/", study, "_", table, ".csv")
  })
  input$code <- file.path("analysis/studies", study, "tables.R")
  attempt(
    paste(job$name, study, "tables"), run_script("analysis/tabulate.R", input, files, study)
  )
  if (job$until == "claims") {
    return()
  }
  figures <- unlist(described$figures)
  input$code <- file.path("analysis/studies", study, "figures", paste0(figures, ".R"))
  files <- function(suffixes) {
    as.list(outer(figures, suffixes, \(figure, suffix) {
      inside("figures/", study, "_", figure, ".", suffix)
    }))
  }
  attempt(paste(job$name, study, "figures"), run_script(
    "analysis/figures.R", input,
    list(
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
  chapters <- file.path("report", paste0("_", c(studies, "agreement"), ".qmd"))
  file.copy(
    c(
      "config/algorithms.tsv", "report/coverage.csv", "report/speed.csv",
      # As the workflow's rule: other summaries have names of tables.
      list.files(
        file.path(results, "summary"), paste0("^(", paste(studies, collapse = "|"),
        ")(_cells|_replicates)?[.]csv$"), full.names = TRUE
      ),
      list.files(file.path(results, "tables"), full.names = TRUE),
      file.path(results, "claims.csv")
    ),
    folder
  )
  # Chapters show figures without reading their content.
  for (study in studies) {
    figures <- yaml::read_yaml(file.path("config/studies", paste0(study, ".yaml")))$figures
    file.create(file.path(folder, paste0(study, "_", unlist(figures), ".svg")))
  }
  file.create(file.path(
    folder, c("scoreboard.svg", "agreement_paths.svg", "path.svg")
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

summaries <- function(job, table) {
  as.list(file.path(job$folder, "results/summary", paste0(unlist(job$studies), table, ".csv")))
}
claims_of <- function(job) {
  as.list(file.path("report/claims", paste0(unlist(job$studies), ".yaml")))
}

jobs <- lapply(jobs, \(job) utils::modifyList(list(until = "report"), job))
for (job in jobs) {
  save_figure <- if (is.null(job$draw)) build_figure else draw_figure
  for (study in unlist(job$studies)) study_jobs(job, study)
}
for (job in Filter(\(job) job$until != "studies", jobs)) {
  attempt(paste(job$name, "claims"), run_script(
    "analysis/claims.R",
    list(
      functions = character(), cells = summaries(job, "_cells"),
      replicates = summaries(job, "_replicates"), claims = claims_of(job)
    ),
    list(file.path(job$folder, "results/claims.csv"))
  ))
}
# What remains is of all studies, whose functions it may use.
for (file in functions_of("*")) source(file)
for (job in Filter(\(job) job$until == "report", jobs)) {
  save_figure <- if (is.null(job$draw)) build_figure else draw_figure
  agreement <- function(table) file.path(job$folder, "results/tables", paste0("agreement_", table))
  attempt(paste(job$name, "agreement"), run_script(
    "analysis/agreement.R",
    list(
      algorithms = "config/algorithms.tsv", cells = summaries(job, "_cells"),
      replicates = summaries(job, "_replicates"), claims = claims_of(job)
    ),
    list(
      seeds = agreement("seeds.csv"), paths = agreement("paths.csv"),
      windows = agreement("windows.csv"),
      figure = list(file.path(job$folder, "results/figures/agreement_paths.svg")),
      words = file.path(job$folder, "results/figures/agreement_paths.txt")
    )
  ))
  published <- file.path("config/published", paste0(unlist(job$studies), ".csv"))
  attempt(paste(job$name, "published numbers"), run_script(
    "analysis/scoreboard.R",
    list(
      cells = summaries(job, "_cells"), replicates = summaries(job, "_replicates"),
      published = as.list(published[file.exists(published)])
    ),
    list(
      numbers = file.path(job$folder, "results/tables/scoreboard_numbers.csv"),
      sources = file.path(job$folder, "results/tables/scoreboard_sources.csv"),
      figure = list(file.path(job$folder, "results/figures/scoreboard.svg")),
      words = file.path(job$folder, "results/figures/scoreboard.txt")
    )
  ))
  attempt(paste(job$name, "report"), knit_report(job))
}
if (length(failures) > 0) writeLines(failures)
quit(status = min(length(failures), 1))
