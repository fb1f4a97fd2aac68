"""Render the report as HTML and PDF, and replace the last one if that succeeds."""


rule render_report:
    input:
        document=workflow.source_path("../../report/index.qmd"),
        # Parts of the document that are not chapters.
        parts=[
            workflow.source_path("../../report/_conclusion.qmd"),
            workflow.source_path("../../report/_limits.qmd"),
            workflow.source_path("../../report/_claims.qmd"),
            workflow.source_path("../../report/_glossary.qmd"),
            workflow.source_path("../../report/_appendix.qmd"),
        ],
        # A chapter per study, in the configuration's order.
        chapters=[
            *[
                studyfiles.file(ROOT, study, studyfiles.CHAPTER)
                for study in campaign.studies
            ],
            *campaign.conform_chapter(),
            ROOT / "report" / "_agreement.qmd",
        ],
        functions=campaign.functions(campaign.studies),
        extra=[
            workflow.source_path("../../report/references.bib"),
            workflow.source_path("../../report/style.css"),
            find("config/algorithms.tsv", ROOT),
            # Recorded time per replicate, on the machine that measured it.
            workflow.source_path("../../report/speed.csv"),
            # Answers of `python -m bench.explained`.
            workflow.source_path("../../report/explained.csv"),
        ],
        renderer=report_code(),
        figures=[
            *campaign.figures("svg", "narrow.svg", "txt", "cells.csv"),
            *expand(
                "results/figures/{figure}.{suffix}",
                figure=["agreement_paths", "scoreboard", "path"],
                suffix=["svg", "narrow.svg", "txt"],
            ),
        ],
        tables=[
            *[file for study in campaign.studies for file in campaign.tables(study)],
            *expand(
                "results/tables/{table}.csv",
                table=[
                    "agreement_seeds",
                    "agreement_paths",
                    "agreement_windows",
                    "agreement_halves",
                    "scoreboard_numbers",
                    "scoreboard_sources",
                    "scoreboard_metrics",
                    "coverage",
                ],
            ),
            *campaign.conform_tables(),
            "results/tables/origin.csv",
            "results/tables/digests.csv",
        ],
        summaries=[
            *expand("results/summary/{study}/statistics.csv", study=campaign.studies),
            *campaign.summaries("cells", "replicates"),
        ],
        invalid=expand("results/tables/{study}/invalid.csv", study=campaign.studies),
        claims="results/claims.csv",
        # The page links to them.
        scripts=campaign.scripts(),
        # If verdicts are recorded, a changed verdict stops the report.
        verdicts=campaign.verdicts(),
    output:
        # Not the report's own folder: Snakemake removes a rule's output before it runs, and the last
        # report must outlast a failure. Not temp(): then a failed render would not be repeated.
        directory(".snakemake/losslab/rendered"),
    log:
        "logs/render_report.log",
    priority: 1
    conda:
        "../envs/tools.yaml"
    params:
        campaign=config.get("campaign", ""),
        command=campaign.command(),
        declared=campaign.declared,
        recorded="--recorded" if campaign.described() else "",
    message:
        "Render the report"
    shell:
        "python -m losslab.report --document {input.document:q} --chapters {input.chapters:q}"
        " --extra-files {input.parts:q} {input.functions:q} {input.extra:q}"
        " --results results"
        " --scripts {input.scripts:q}"
        " --campaign={params.campaign:q} --command={params.command:q}"
        " {params.recorded}"
        " --declared={params.declared:q}"
        " --html {output:q}/report.html --pdf {output:q}/report.pdf &> {log:q}"


rule publish_report:
    input:
        ".snakemake/losslab/rendered",
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
        "logs/publish_report.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Publish the report"
    shell:
        "cp -r {input:q}/. results/report/ &> {log:q}"
