"""Run the workflow (`workflow/Snakefile`) in this folder."""


include: "workflow/Snakefile"


# Snakemake leaves an included file's default target out.
workflow.default_target = "all"
