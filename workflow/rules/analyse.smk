"""Compute statistics, figures, tables and verdicts from tidy tables, in R."""

for study in campaign.studies:

    # One process of R for all that follows from a study's tables alone.
    rule:
        name:
            f"analyse_{study}"
        input:
            **{table: f"results/summary/{study}/{table}.csv" for table in COLLECTED},
            functions=campaign.functions([study]),
            code=studyfiles.file(ROOT, study, studyfiles.TABLES),
            figures=campaign.figure_code(study),
            algorithms=find("config/algorithms.tsv", ROOT),
            published=studyfiles.published(ROOT, study),
            curves=studyfiles.published(ROOT, study, studyfiles.CURVES),
        output:
            summary=f"results/summary/{study}/statistics.csv",
            ratios=f"results/summary/{study}/ratios.csv",
            invalid=f"results/tables/{study}/invalid.csv",
            tables=campaign.tables(study),
            figure=[
                report(
                    f"results/figures/{study}/{figure}.svg",
                    caption="../captions/figure.rst",
                    category=study,
                    labels={"figure": figure},
                )
                for figure in campaign.studies[study].figures
            ],
            others=campaign.figures("narrow.svg", "png", "pdf", study=study),
            described=campaign.figures("csv", "cells.csv", "txt", study=study),
        log:
            f"logs/analyse/{study}.log",
        # The report waits for it; the explorer does not.
        priority: 1
        conda:
            "../envs/tools.yaml"
        params:
            study=study,
        message:
            f"Compute statistics, tables and figures of {study}"
        script:
            "../../analysis/study.R"


rule compare_studies:
    input:
        functions=campaign.functions(campaign.studies),
        algorithms=find("config/algorithms.tsv", ROOT),
        cells=campaign.summaries("cells"),
        replicates=campaign.summaries("replicates"),
        statistics=expand(
            "results/summary/{study}/statistics.csv", study=campaign.studies
        ),
        claims=[
            studyfiles.file(ROOT, study, studyfiles.CLAIMS)
            for study in campaign.studies
        ],
        published=[
            file
            for study in campaign.studies
            for file in studyfiles.published(ROOT, study)
        ],
        records=campaign.conformed(),
    output:
        claims=report(
            "results/claims.csv",
            caption="../captions/claims.rst",
            category="Report",
            labels={"what": "claims"},
        ),
        seeds="results/tables/agreement_seeds.csv",
        paths="results/tables/agreement_paths.csv",
        windows="results/tables/agreement_windows.csv",
        halves="results/tables/agreement_halves.csv",
        numbers="results/tables/scoreboard_numbers.csv",
        sources="results/tables/scoreboard_sources.csv",
        metrics="results/tables/scoreboard_metrics.csv",
        coverage="results/tables/coverage.csv",
        conform=campaign.conform_tables(),
        figures=expand(
            "results/figures/{figure}.{suffix}",
            figure=["path", "agreement_paths", "scoreboard"],
            suffix=["svg", "narrow.svg", "png", "pdf", "txt"],
        ),
    log:
        "logs/compare_studies.log",
    priority: 1
    conda:
        "../envs/tools.yaml"
    message:
        "Judge the claims, and compare studies and published numbers"
    script:
        "../../analysis/compare.R"


rule trace_origin:
    input:
        cells=campaign.summaries("cells"),
        records=campaign.records(),
    output:
        origin="results/tables/origin.csv",
        digests="results/tables/digests.csv",
    log:
        "logs/trace_origin.log",
    priority: 1
    conda:
        "../envs/tools.yaml"
    params:
        recorded=campaign.record_option(),
    message:
        "List the instruments of the cells"
    shell:
        "losslab origin {input.cells:q} {params.recorded:q} --out {output.origin:q} --digests {output.digests:q} &> {log:q}"
