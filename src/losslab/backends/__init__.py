"""Backends run replicates.

`virtual` uses Mininet hosts, `containernet` Docker containers. Both run in a guest, in virtual time
with a kernel of losslab. Installed packages add other places, such as this machine's own kernel.
"""
