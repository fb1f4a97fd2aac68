"""Fuzz every reader of losslab with random, mutated and structured invalid input.

    python -m bench.fuzz              50,000 inputs, a table on stdout; exit 1 on violations
    python -m bench.fuzz --only flows scheme --examples 5000 --seed 7

A reader may accept an input if the result is within the declared ranges, or refuse it with a
`UsageError`, which is exit status 2. Everything else is a violation: another exception, more than
`LIMIT_S` of CPU time, a number that is not finite, or a crash of the process.
"""
