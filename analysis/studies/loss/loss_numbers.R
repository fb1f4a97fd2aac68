# The source's means, for the agreement factors. Its means on the two paths repeat each other from
# 1 % loss on; without loss, it finds that the paths differ.
loss_numbers <- function(published) {
  dplyr::transmute(
    published,
    place = paste("slide", slide), blocks = "main", app = "iperf3", algorithm, path, loss_percent,
    metric = "goodput_mbit", published = mean,
    repeats = ifelse(loss_percent >= 1, paste(algorithm, loss_percent), NA)
  )
}
