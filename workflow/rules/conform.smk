"""Judge algorithms by the test cases of drafts, and tabulate the verdicts."""


rule judge_algorithm:
    input:
        smoke_test=campaign.conform_smoke_test,
        suite=lambda wildcards: studyfiles.suite_path(wildcards.suite, ROOT),
        states=find("config/states.toml", ROOT),
        code=commands.sources("conform"),
    output:
        "results/conform/{suite}_{algorithm}.json",
    log:
        "logs/judge_algorithm/{suite}_{algorithm}.log",
    conda:
        "../envs/tools.yaml"
    threads: 2
    params:
        seeds=campaign.conform_seeds,
    message:
        "Judge {wildcards.algorithm} by {wildcards.suite}"
    shell:
        "losslab conform {wildcards.suite} {wildcards.algorithm} --seeds {params.seeds} --cores {threads}"
        " --out results/conform/{wildcards.suite}_{wildcards.algorithm}"
        " --needs {input.smoke_test:q} --record {output:q} &> {log:q}"


rule tabulate_conform:
    input:
        functions=studyfiles.functions(ROOT, []),
        records=campaign.conformed(),
    output:
        "results/tables/conform_verdicts.csv",
    log:
        "logs/tabulate_conform.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Tabulate the verdicts on drafts' test cases"
    script:
        "../../analysis/conform.R"
