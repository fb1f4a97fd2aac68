"""Inputs, outputs and parameters of the workflow's rules, independent of Snakemake."""
