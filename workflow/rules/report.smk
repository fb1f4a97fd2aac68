"""One report, HTML and PDF, from the same files."""

# The chapter on what the numbers of all others are worth.
AGREEMENT = str(design.ROOT / "report" / "_agreement.qmd")


rule render_report:
    input:
        document=workflow.source_path("../../report/index.qmd"),
        # What the document includes besides chapters.
        parts=[
            workflow.source_path("../../report/_limits.qmd"),
            workflow.source_path("../../report/_glossary.qmd"),
            workflow.source_path("../../report/_appendix.qmd"),
        ],
        # A chapter per study, in the configuration's order.
        chapters=[
            *(str(files.chapter(design.ROOT, study)) for study in STUDIES),
            AGREEMENT,
        ],
        functions=functions_of(
            design.ROOT / "report" / "index.qmd",
            design.ROOT / "report" / "_limits.qmd",
            design.ROOT / "report" / "_appendix.qmd",
            design.ROOT / "report" / "_glossary.qmd",
            Path(AGREEMENT),
            *(files.chapter(design.ROOT, study) for study in STUDIES),
            studies=STUDIES,
        ),
        beside=[
            workflow.source_path("../../report/references.bib"),
            workflow.source_path("../../report/style.css"),
            workflow.source_path("../../report/quarto.typ"),
            workflow.source_path("../../config/algorithms.tsv"),
            # How often intervals cover: by simulation, and so the same in every campaign.
            workflow.source_path("../../report/coverage.csv"),
        ],
        renderer=[
            workflow.source_path("../../src/losslab/report.py"),
            workflow.source_path("../../src/losslab/htmlpage.py"),
            workflow.source_path("../../src/losslab/tracing.py"),
            workflow.source_path("../../report/render/template.html"),
            workflow.source_path("../../report/render/crossref.lua"),
            workflow.source_path("../../report/render/knit.R"),
            workflow.source_path("../../report/render/template.typ"),
        ],
        figures=[
            *(
                file
                for study in STUDIES
                for file in figure_files(study, "svg", "txt", "cells.csv")
            ),
            "results/figures/agreement_paths.svg",
            "results/figures/agreement_paths.txt",
            "results/figures/claims.svg",
            "results/figures/claims.txt",
            "results/figures/path.svg",
            "results/figures/path.txt",
        ],
        tables=[
            *(file for study in STUDIES for file in table_files(study).values()),
            *expand(
                "results/tables/agreement_{table}.csv",
                table=["seeds", "paths", "windows"],
            ),
            "results/tables/origin.csv",
            "results/tables/digests.csv",
        ],
        summaries=expand(
            "results/summary/{study}{table}.csv",
            study=STUDIES,
            table=["", "_cells", "_replicates"],
        ),
        invalid=expand("results/tables/{study}_invalid.csv", study=STUDIES),
        claims="results/claims.csv",
        # The page leads to them.
        scripts=[
            str(ANALYSIS / "agreement.R"),
            *(
                str(script)
                for study in STUDIES.values()
                for script in (
                    files.tables(design.ROOT, study.name),
                    *(
                        files.figure(design.ROOT, study.name, name)
                        for name in study.figures
                    ),
                )
            ),
        ],
        # Where verdicts are recorded, a claim that changes its own stops the report.
        verdicts=["results/verdicts.checked"] if recorded_verdicts() else [],
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
        command=repeating.command(workflow.configfiles, design.ROOT),
    message:
        "Render the report"
    shell:
        "python -m losslab.report --document {input.document:q} --chapters {input.chapters:q}"
        " --beside {input.parts:q} {input.functions:q} {input.beside:q} {input.figures:q} {input.tables:q}"
        " {input.summaries:q} {input.invalid:q} {input.claims:q}"
        " --scripts {input.scripts:q}"
        " --campaign={params.campaign:q} --command={params.command:q} --html {output.html:q} --pdf {output.pdf:q} &> {log:q}"
