"""Where a replicate runs.

`virtual`: Mininet's hosts in a kernel of our own, in virtual time. `containernet`: Docker
containers, in such a kernel too, or on this machine's own in real time.
"""
