package gateway_test

import (
	"os"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

func TestMain(m *testing.M) { os.Exit(gatewaytest.RunWaiting(m)) }
