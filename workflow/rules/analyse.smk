"""Compute statistics, figures, tables and verdicts from tidy tables, in R."""


rule summarise_study:
    input:
        functions=studyfiles.functions(ROOT, []),
        replicates="results/summary/{study}_replicates.csv",
        intervals="results/summary/{study}_intervals.csv",
    output:
        summary="results/summary/{study}.csv",
        ratios="results/summary/{study}_ratios.csv",
        invalid="results/tables/{study}_invalid.csv",
    log:
        "logs/summarise_study/{study}.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Summarise {wildcards.study}"
    script:
        "../../analysis/summarise.R"


rule judge_claims:
    input:
        functions=studyfiles.functions(ROOT, []),
        cells=campaign.summaries("cells"),
        replicates=campaign.summaries("replicates"),
        claims=[studyfiles.claims_file(ROOT, study) for study in campaign.studies],
    output:
        report(
            "results/claims.csv",
            caption="../captions/claims.rst",
            category="Report",
            labels={"what": "claims"},
        ),
    log:
        "logs/judge_claims.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Judge the claims"
    script:
        "../../analysis/claims.R"


rule draw_path:
    input:
        functions=studyfiles.functions(ROOT, []),
        cells=campaign.summaries("cells"),
    output:
        figure=expand(
            "results/figures/path.{format}", format=["svg", "narrow.svg", "png", "pdf"]
        ),
        words="results/figures/path.txt",
    log:
        "logs/draw_path.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Draw the path"
    script:
        "../../analysis/path.R"


rule test_agreement:
    input:
        functions=studyfiles.functions(ROOT, []),
        algorithms=find("config/algorithms.tsv", ROOT),
        cells=campaign.summaries("cells"),
        replicates=campaign.summaries("replicates"),
        claims=[studyfiles.claims_file(ROOT, study) for study in campaign.studies],
    output:
        seeds="results/tables/agreement_seeds.csv",
        paths="results/tables/agreement_paths.csv",
        windows="results/tables/agreement_windows.csv",
        figure=expand(
            "results/figures/agreement_paths.{format}",
            format=["svg", "narrow.svg", "png", "pdf"],
        ),
        words="results/figures/agreement_paths.txt",
    log:
        "logs/test_agreement.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Count false positives between equal cells"
    script:
        "../../analysis/agreement.R"


rule compare_numbers:
    input:
        functions=studyfiles.functions(ROOT, campaign.studies),
        cells=campaign.summaries("cells"),
        replicates=campaign.summaries("replicates"),
        published=[
            file
            for study in campaign.studies
            for file in studyfiles.published(ROOT, study)
        ],
    output:
        numbers="results/tables/scoreboard_numbers.csv",
        sources="results/tables/scoreboard_sources.csv",
        figure=expand(
            "results/figures/scoreboard.{format}",
            format=["svg", "narrow.svg", "png", "pdf"],
        ),
        words="results/figures/scoreboard.txt",
    log:
        "logs/compare_numbers.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Compare every published number with ours"
    script:
        "../../analysis/scoreboard.R"


rule trace_origin:
    input:
        cells=campaign.summaries("cells"),
        records=campaign.records(),
    output:
        origin="results/tables/origin.csv",
        digests="results/tables/digests.csv",
    log:
        "logs/trace_origin.log",
    conda:
        "../envs/tools.yaml"
    params:
        recorded=campaign.record_option(),
    message:
        "List the instruments of the cells"
    shell:
        "losslab origin {input.cells:q} {params.recorded:q} --out {output.origin:q} --digests {output.digests:q} &> {log:q}"


rule check_verdicts:
    input:
        claims="results/claims.csv",
        recorded=campaign.verdicts(),
    output:
        touch("results/verdicts.checked"),
    log:
        "logs/check_verdicts.log",
    conda:
        "../envs/tools.yaml"
    params:
        campaign=config.get("campaign", ""),
    message:
        "Compare the verdicts with the recorded verdicts"
    shell:
        "losslab claims --claims {input.claims:q} --check {params.campaign:q} &> {log:q}"


for study in campaign.studies:

    rule:
        name:
            f"tabulate_{study}"
        input:
            functions=studyfiles.functions(ROOT, [study]),
            code=studyfiles.tables(ROOT, study),
            cells=f"results/summary/{study}_cells.csv",
            summary=f"results/summary/{study}.csv",
            ratios=f"results/summary/{study}_ratios.csv",
            replicates=f"results/summary/{study}_replicates.csv",
            intervals=f"results/summary/{study}_intervals.csv",
            flows=f"results/summary/{study}_flows.csv",
            queue=f"results/summary/{study}_queue.csv",
            published=studyfiles.published(ROOT, study),
            criteria=f"results/summary/{study}_criteria.csv",
        output:
            **campaign.tables(study),
        log:
            f"logs/tabulate/{study}.log",
        conda:
            "../envs/tools.yaml"
        message:
            f"Write the tables of {study}"
        script:
            "../../analysis/tabulate.R"

    # One process of R draws all figures of a study.
    rule:
        name:
            f"plot_{study}"
        input:
            functions=studyfiles.functions(ROOT, [study]),
            code=campaign.figure_code(study),
            algorithms=find("config/algorithms.tsv", ROOT),
            published=studyfiles.published(ROOT, study),
            curves=studyfiles.published(ROOT, study, "_curves"),
            criteria=f"results/summary/{study}_criteria.csv",
            cells=f"results/summary/{study}_cells.csv",
            summary=f"results/summary/{study}.csv",
            ratios=f"results/summary/{study}_ratios.csv",
            replicates=f"results/summary/{study}_replicates.csv",
            intervals=f"results/summary/{study}_intervals.csv",
            flows=f"results/summary/{study}_flows.csv",
            queue=f"results/summary/{study}_queue.csv",
        output:
            figure=[
                report(
                    f"results/figures/{study}_{figure}.svg",
                    caption="../captions/figure.rst",
                    category=study,
                    labels={"figure": figure},
                )
                for figure in campaign.studies[study].figures
            ],
            others=campaign.figures("narrow.svg", "png", "pdf", study=study),
            described=campaign.figures("csv", "cells.csv", "txt", study=study),
        log:
            f"logs/plot/{study}.log",
        conda:
            "../envs/tools.yaml"
        message:
            f"Draw the figures of {study}"
        script:
            "../../analysis/figures.R"
