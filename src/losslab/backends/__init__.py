"""Backends run replicates.

`virtual` uses Mininet hosts, `containernet` Docker containers. Both run in a guest, in virtual time
with a kernel of losslab, or on this machine's own kernel in real time.
"""
