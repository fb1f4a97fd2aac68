"""One report, HTML and PDF, from the same files."""

FIGURES = ["goodput", "distribution", "cwnd", "video", "ratio", "sensitivity"]
TABLES = ["summary", "decrease", "ratio", "video", "invalid", "published"]


rule render_report:
    input:
        document=workflow.source_path("../../report/index.qmd"),
        chapters=workflow.source_path("../../report/_loss.qmd"),
        references=workflow.source_path("../../report/references.bib"),
        style=workflow.source_path("../../report/style.css"),
        renderer=[
            workflow.source_path("../../src/losslab/report.py"),
            workflow.source_path("../../report/render/crossref.lua"),
            workflow.source_path("../../report/render/knit.R"),
            workflow.source_path("../../report/render/template.typ"),
        ],
        figures=expand("results/figures/loss_{figure}.svg", figure=FIGURES),
        tables=expand("results/tables/loss_{table}.csv", table=TABLES),
        summaries=[
            "results/summary/loss.csv",
            "results/summary/loss_replicates.csv",
        ],
        claims="results/claims.csv",
        algorithms=workflow.source_path("../../config/algorithms.tsv"),
    output:
        html="results/report/report.html",
        pdf="results/report/report.pdf",
    log:
        "logs/render_report.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Render the report"
    shell:
        "python -m losslab.report --document {input.document}"
        " --beside {input.chapters} {input.references} {input.style} {input.algorithms}"
        " {input.figures} {input.tables} {input.summaries} {input.claims}"
        " --html {output.html} --pdf {output.pdf} &> {log}"
