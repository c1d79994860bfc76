// Package bench compares the evaluation of a configuration matrix with
// LaunchDarkly's flag evaluator for Go, in one process and on the same table.
// It is a module of its own so that the gateway does not depend on LaunchDarkly.
// README.md says what is measured and how to run it.
package bench
