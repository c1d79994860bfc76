package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// BenchmarkExchange books claims of counters that are there already.
func BenchmarkExchange(b *testing.B) {
	server := postgrestest.Start(b)
	for _, n := range []int{1, 50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ledger := openLedger(b, server.DSN())
			defer closeLedger(b, ledger)
			var claims []limit.Claim
			for i := range n {
				c := claimOf(fmt.Sprint("limit ", i), time.Hour)
				c.Most, c.Used = 1<<40, 1
				claims = append(claims, c)
			}
			exchange(b, ledger, claims...)
			for i := range claims {
				claims[i].Known = true
			}
			for b.Loop() {
				exchange(b, ledger, claims...)
			}
		})
	}
}
