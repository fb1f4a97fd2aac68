"""What the rules of `workflow/` ask for: names of files and parameters, without Snakemake."""
