// Command load measures the CPU time of a request through the gateway,
// against plain Caddy of the same binary:
//
//	cd bench && go run ./load
//
// It starts the gateway with several configurations, plain Caddy, and a mock of OpenAI's API
// in its own process. It measures them in turns and prints the ratios as a table in Markdown.
// docs/performance.md has the method and the figures of a run. It needs Linux.
package main
