"""Measure what paths do to TCP congestion control, and typeset the findings."""

from snakemake.utils import min_version

min_version("9.20")


# Another campaign (`--configfile`) stands for itself.
if "studies" not in config:

    configfile: "config/config.yaml"


report: "workflow/captions/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/changed.smk"
include: "workflow/rules/wanted.smk"
include: "workflow/rules/instrument.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/explorer.smk"
include: "workflow/rules/progress.smk"


onstart:
    hold_folder()
    staleness.record_code(CELLS.values())
    note_changed_results()
    test_instruments()


onsuccess:
    record_campaign()
    record_results()
    name_lost_cells()


onerror:
    record_campaign()
    record_results()


rule all:
    default_target: True
    input:
        "results/report/report.html",
        "results/report/report.pdf",
        "results/report/explorer.html",
    localrule: True
