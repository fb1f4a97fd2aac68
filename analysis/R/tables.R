# Reading the workflow's tables, with the types that every later step relies on.

# Mean, spread and quartiles that the source prints, in its order.
statistics <- c("mean", "std", "min", "q25", "median", "q75", "max")

read_replicates <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(
      study = "c", block = "c", cell = "c", algorithm = "c", path = "c", app = "c",
      offloads = "c", reasons = "c", valid = "l", .default = "d"
    )
  )
}

read_intervals <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(
      block = "c", cell = "c", algorithm = "c", path = "c", app = "c", offloads = "c",
      .default = "d"
    )
  )
}

read_cwnd <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(cell = "c", algorithm = "c", path = "c", .default = "d")
  )
}

read_published <- function(path) {
  readr::read_csv(path, col_types = readr::cols(algorithm = "c", path = "c", .default = "d"))
}

read_algorithms <- function(path) {
  readr::read_tsv(path, col_types = readr::cols(shape = "i", .default = "c"))
}
