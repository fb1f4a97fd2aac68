"""Run the workflow (`workflow/Snakefile`) in this folder."""


include: "workflow/Snakefile"


# Snakemake ignores the default target of an included file.
workflow.default_target = "all"
