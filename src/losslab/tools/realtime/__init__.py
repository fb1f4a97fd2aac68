"""Backends on this machine's own kernel, in real time: Mininet hosts, or containers.

A job has a copy of this package next to losslab's modules (`onhost.turn`).
"""
