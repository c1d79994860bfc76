// Command footprint is the gateway in a binary that counts what it runs: /clear of
// FOOTPRINT_ADDRESS forgets that, and /write writes it into GOCOVERDIR.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime/coverage"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/cadenza-gateway/cadenza"
)

func main() {
	do := func(path string, f func() error) {
		http.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := f(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	do("/clear", coverage.ClearCounters)
	do("/write", func() error { return coverage.WriteCountersDir(os.Getenv("GOCOVERDIR")) })
	go func() { fmt.Println(http.ListenAndServe(os.Getenv("FOOTPRINT_ADDRESS"), nil)) }()
	caddycmd.Main()
}
