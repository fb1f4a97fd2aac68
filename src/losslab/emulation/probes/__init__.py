"""What is read from the kernel while the traffic runs."""
