"""From tidy tables to statistics, figures, tables and verdicts, in R."""

R_FUNCTIONS = [
    workflow.source_path(f"../../analysis/R/{name}.R")
    for name in ["tables", "statistics", "claims", "look"]
]


rule summarise_study:
    input:
        functions=R_FUNCTIONS,
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
        functions=R_FUNCTIONS,
        summary="results/summary/loss.csv",
        claims=workflow.source_path("../../report/claims/loss.yaml"),
    output:
        "results/claims.csv",
    log:
        "logs/judge_claims.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Judge the published claims"
    script:
        "../../analysis/claims.R"


rule tabulate_loss:
    input:
        functions=R_FUNCTIONS,
        summary="results/summary/loss.csv",
        ratios="results/summary/loss_ratios.csv",
        published=workflow.source_path("../../config/published/loss.csv"),
    output:
        summary="results/tables/loss_summary.csv",
        decrease="results/tables/loss_decrease.csv",
        ratio="results/tables/loss_ratio.csv",
        video="results/tables/loss_video.csv",
        published="results/tables/loss_published.csv",
    log:
        "logs/tabulate_loss.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Write the tables of the loss study"
    script:
        "../../analysis/tables/loss.R"


rule plot_loss:
    input:
        functions=R_FUNCTIONS,
        algorithms=workflow.source_path("../../config/algorithms.tsv"),
        published=workflow.source_path("../../config/published/loss.csv"),
        summary="results/summary/loss.csv",
        ratios="results/summary/loss_ratios.csv",
        intervals="results/summary/loss_intervals.csv",
        cwnd="results/summary/loss_cwnd.csv",
    output:
        "results/figures/loss_{figure}.svg",
        "results/figures/loss_{figure}.png",
        "results/figures/loss_{figure}.pdf",
    log:
        "logs/plot_loss/{figure}.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Draw loss_{wildcards.figure}"
    script:
        "../../analysis/figures/loss_{wildcards.figure}.R"
