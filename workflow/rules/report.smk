"""One report, HTML and PDF, from the same files."""


rule render_report:
    input:
        document=workflow.source_path("../../report/index.qmd"),
        # A chapter per study, in the configuration's order.
        chapters=[str(files.chapter(design.ROOT, study)) for study in STUDIES],
        functions=functions_of(
            design.ROOT / "report" / "index.qmd",
            *(files.chapter(design.ROOT, study) for study in STUDIES),
            studies=STUDIES,
        ),
        beside=[
            workflow.source_path("../../report/references.bib"),
            workflow.source_path("../../report/style.css"),
            workflow.source_path("../../config/algorithms.tsv"),
        ],
        renderer=[
            workflow.source_path("../../src/losslab/report.py"),
            workflow.source_path("../../report/render/crossref.lua"),
            workflow.source_path("../../report/render/knit.R"),
            workflow.source_path("../../report/render/template.typ"),
        ],
        figures=[file for study in STUDIES for file in figure_files(study, "svg")],
        tables=[file for study in STUDIES for file in table_files(study).values()],
        summaries=expand(
            "results/summary/{study}{table}.csv",
            study=STUDIES,
            table=["", "_cells", "_replicates"],
        ),
        invalid=expand("results/tables/{study}_invalid.csv", study=STUDIES),
        claims="results/claims.csv",
        # Where verdicts are recorded, a claim that changes its own stops the report.
        verdicts=["results/verdicts.checked"] if recorded_verdicts() else [],
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
        "python -m losslab.report --document {input.document:q} --chapters {input.chapters:q}"
        " --beside {input.functions:q} {input.beside:q} {input.figures:q} {input.tables:q}"
        " {input.summaries:q} {input.invalid:q} {input.claims:q}"
        " --html {output.html:q} --pdf {output.pdf:q} &> {log:q}"
