# Run all R tests; exits with 1 on a failure.
suppressPackageStartupMessages(library(testthat))
for (file in list.files("analysis/R", full.names = TRUE)) source(file)
test_dir("analysis/tests/testthat", env = globalenv(), reporter = "summary", stop_on_failure = TRUE)
