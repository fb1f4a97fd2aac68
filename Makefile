# losslab: two commands. `make report` measures and writes the report; `make test` runs all tests but the nightly ones.
.DEFAULT_GOAL := help
CORES ?= all
CONFIG ?= config/campaigns/quick.yaml
WHERE ?= guest
# Recorded numbers of the campaigns that `make site` shows.
RECORDED ?= recorded/full
LAB ?= recorded/lab
export LANG := C.UTF-8
export TZ := UTC
# Snakemake asks for the user's name, which a user of `docker run --user` has not.
export LOGNAME ?= $(shell id -u)

.PHONY: help tools setup demo containernet report claims artifact verify-artifact figure stacks site docs check test relock

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 18

tools:
	@scripts/setup.sh tools

setup: ## Install missing packages, fetch or build kernel and host image (once; BUILD=1: build)
	@BUILD="$(BUILD)" scripts/setup.sh

demo: setup ## Measure CUBIC and BBR with and without loss, in a minute
	@.venv/bin/losslab demo

containernet: setup ## Prepare the containernet backend (WHERE=host: install Docker, too)
	@scripts/containernet.sh $(WHERE)

report: setup ## Measure the quick configuration and write results/report/report.{html,pdf}
	@.venv/bin/losslab cells --config $(CONFIG) >/dev/null
	.venv/bin/snakemake --cores $(CORES) --configfile $(CONFIG)

claims: setup ## Print every claim with its number, confidence interval, limit, verdict and reason
	@.venv/bin/losslab cells --config $(CONFIG) >/dev/null
	.venv/bin/snakemake --cores $(CORES) --configfile $(CONFIG) --until compare_studies
	@.venv/bin/losslab claims

figure: setup ## Measure and draw the README's figure
	.venv/bin/snakemake --cores $(CORES) results/figures/loss/goodput.svg --configfile $(CONFIG)
	.venv/bin/python -m bench.readme

artifact: tools ## Pack a measured campaign: losslab-artifact.tar.gz
	@scripts/group.sh artifact
	.venv/bin/losslab artifact pack --campaign $(CONFIG)

verify-artifact: ## In an unpacked artifact: re-run a random sample, compare every byte
	@scripts/setup.sh
	.venv/bin/losslab artifact verify $(if $(SAMPLE),--sample $(SAMPLE))

stacks: ## Build senders and receivers of the QUIC stacks quiche, quinn, s2n-quic and quic-go
	@programs/quic/build.sh

site: tools ## Build the public site from recorded numbers, without measuring: site/index.html, site/lab.html
	@scripts/group.sh docs
	.venv/bin/snakemake --cores $(CORES) --config recorded=$(RECORDED) measure=False
	.venv/bin/losslab explorer --recorded $(LAB) --title "Choose a path, see what TCP does" \
	  --lessons docs/how-to/teach.md --report results/report/report.html --out results/report/lab.html
	.venv/bin/losslab evidence $(RECORDED) $(LAB) --claims results/claims.csv --cases recorded/conform.tsv \
	  --out results/report/evidence.html
	.venv/bin/losslab entries recorded/algorithms --out results/report/algorithms.html
	LOSSLAB_SITE_RESULTS=results NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "losslab: site/index.html, $$(du -sh site | cut -f1)"

docs: tools ## Build the documentation's site, site/index.html
	@scripts/group.sh docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "losslab: site/index.html"

check: tools ## Run linters, types, a dry run and unit tests: two minutes, no kernel
	@scripts/check.sh

test: setup ## Run every test but the nightly ones
	@scripts/test.sh

relock: ## Pin the newest packages of images and Python (makes a new instrument)
	@scripts/relock.sh
