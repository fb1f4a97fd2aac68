# Names of the two ways to add delay: on the sender's own interface, as published, and on routers.
setup_labels <- c(published = "As published: netem on the sender", routers = "Delay on routers")

label_setups <- function(sender_delay_ms) {
  factor(
    ifelse(sender_delay_ms > 0, setup_labels["published"], setup_labels["routers"]), setup_labels
  )
}

label_losses <- function(loss_percent) {
  levels <- sort(unique(loss_percent))
  factor(paste(loss_percent, "%"), levels = paste(levels, "%"))
}
