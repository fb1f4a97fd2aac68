"""Commands `check` and `divergence`: effects of a change of the kernel or a program."""
