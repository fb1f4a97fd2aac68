"""Files and parameters of the rules of `workflow/`, without Snakemake."""
