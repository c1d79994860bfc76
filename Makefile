# The steps of .ci/step by name, such as `make test`, for those who have make.
# .ci/run passes the same steps and does not need it.
STEPS := modules format vet portable lint test race fuzz bench grafana release console clients cross build

.DEFAULT_GOAL := check

# What is worth running before each commit.
.PHONY: check
check:
	@.ci/step format vet test

.PHONY: all $(STEPS)
all $(STEPS):
	@.ci/step $@
