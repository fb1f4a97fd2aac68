"""Render the report as HTML and PDF."""


rule render_report:
    input:
        document=workflow.source_path("../../report/index.qmd"),
        # Parts of the document that are not chapters.
        parts=[
            workflow.source_path("../../report/_limits.qmd"),
            workflow.source_path("../../report/_glossary.qmd"),
            workflow.source_path("../../report/_appendix.qmd"),
        ],
        # A chapter per study, in the configuration's order.
        chapters=analysis.chapters(),
        functions=analysis.functions(*campaign.studies),
        extra=[
            workflow.source_path("../../report/references.bib"),
            workflow.source_path("../../report/style.css"),
            workflow.source_path("../../report/quarto.typ"),
            workflow.source_path("../../config/algorithms.tsv"),
            # Coverage of confidence intervals, from a simulation: the same in every campaign.
            workflow.source_path("../../report/coverage.csv"),
            # Recorded time per replicate, on the machine that measured it.
            workflow.source_path("../../report/speed.csv"),
        ],
        renderer=[
            workflow.source_path("../../src/losslab/report.py"),
            workflow.source_path("../../src/losslab/htmlpage.py"),
            workflow.source_path("../../report/render/template.html"),
            workflow.source_path("../../report/render/crossref.lua"),
            workflow.source_path("../../report/render/knit.R"),
            workflow.source_path("../../report/render/template.typ"),
        ],
        figures=[
            *analysis.figures(),
            "results/figures/agreement_paths.svg",
            "results/figures/agreement_paths.txt",
            "results/figures/claims.svg",
            "results/figures/claims.txt",
            "results/figures/path.svg",
            "results/figures/path.txt",
        ],
        tables=[
            *analysis.tables(),
            *expand(
                "results/tables/agreement_{table}.csv",
                table=["seeds", "paths", "windows"],
            ),
            "results/tables/origin.csv",
            "results/tables/digests.csv",
        ],
        summaries=campaign.summaries("summary", "cells", "replicates"),
        invalid=expand("results/tables/{study}_invalid.csv", study=campaign.studies),
        claims="results/claims.csv",
        # The page links to them.
        scripts=analysis.scripts(),
        # If verdicts are recorded, a changed verdict stops the report.
        verdicts=["results/verdicts.checked"] if campaign.verdicts() else [],
    output:
        html=report(
            "results/report/report.html",
            caption="../captions/report.rst",
            category="Report",
            labels={"what": "report"},
        ),
        pdf="results/report/report.pdf",
        tables=directory("results/report/tables"),
        scripts=directory("results/report/scripts"),
    log:
        "logs/render_report.log",
    conda:
        "../envs/tools.yaml"
    params:
        campaign=config.get("campaign", ""),
        command=campaign.command(),
    message:
        "Render the report"
    shell:
        "python -m losslab.report --document {input.document:q} --chapters {input.chapters:q}"
        " --extra-files {input.parts:q} {input.functions:q} {input.extra:q} {input.figures:q} {input.tables:q}"
        " {input.summaries:q} {input.invalid:q} {input.claims:q}"
        " --scripts {input.scripts:q}"
        " --campaign={params.campaign:q} --command={params.command:q} --html {output.html:q} --pdf {output.pdf:q} &> {log:q}"
