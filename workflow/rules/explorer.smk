"""The run explorer: every cell, and its runs over time, in one page beside the report."""


rule make_explorer:
    input:
        cells=expand("results/summary/{study}_cells.csv", study=STUDIES),
        runs=[f"results/cells/{study}/{cell}/cell.json" for study, cell in CELLS],
        algorithms=workflow.source_path("../../config/algorithms.tsv"),
        code=[
            str(path)
            for folder in (
                design.ROOT / "report" / "explorer",
                fingerprint.PACKAGE / "screen",
            )
            for path in sorted(folder.rglob("*.*"))
            if path.suffix in (".html", ".css", ".js")
            or path.name in ("explorer.py", "series.py")
        ],
    output:
        "results/report/explorer.html",
    log:
        "logs/make_explorer.log",
    conda:
        "../envs/tools.yaml"
    threads: 4
    message:
        "Make the run explorer"
    shell:
        "losslab explorer {input.cells:q} --processes {threads} --out {output:q} &> {log:q}"
