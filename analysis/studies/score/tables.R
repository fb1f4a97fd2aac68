# The verdict on every case of the suite, for every algorithm.
tables <- function(data, write) write(data$criteria, "criteria")
