# Run all R tests; exits with 1 on a failure.
suppressPackageStartupMessages(library(testthat))
files <- Sys.glob(c("analysis/R/*.R", "studies/*/*.R"))
for (file in files[!grepl("/studies/[^/]+/tables[.]R$", files)]) source(file)
test_dir("analysis/tests/testthat", env = globalenv(), reporter = "summary", stop_on_failure = TRUE)
