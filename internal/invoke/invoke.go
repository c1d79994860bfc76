// Package invoke calls an endpoint's targets in order until one answers: the
// one loop of retries and fallback, outside every SDK, the same for whole and
// for streamed answers.
package invoke
