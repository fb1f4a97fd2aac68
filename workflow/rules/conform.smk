"""Judge algorithms by the test cases of drafts."""


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
