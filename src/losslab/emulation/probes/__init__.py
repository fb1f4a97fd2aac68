"""Probes that read the kernel's state while the traffic runs."""
