package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// requireFullDisk is the environment variable that makes TestFullDisk fail,
// rather than skip, if it can't mount a small disk.
const requireFullDisk = "CADENZA_REQUIRE_FULL_DISK"

// TestFullDisk runs the gateway on a disk of 4 MiB until that is full. Then metrics
// are refused, and everything else is answered. With more space, metrics are accepted
// again. All acknowledged metrics are stored.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := mountSmall(t, disk, "4m"); err != nil {
		t.Skipf("%v (set %s to fail instead)", err, requireFullDisk)
	}
	p := newProcess(t, disk)
	p.start()
	t.Cleanup(p.kill) // before the disk is unmounted

	ctx, client := t.Context(), &http.Client{Timeout: gatewaytest.Patience}
	defer client.CloseIdleConnections()
	stored := make(map[int64]string)
	next := int64(0)
	ballast := strings.Repeat("x", 8<<10)
	// report asks for a configuration, reports metrics on it, and returns the
	// status of the report.
	report := func() (int, http.Header) {
		t.Helper()
		status, header, text, err := post(ctx, client, p.url+"/v1/remoteconfigs", `{"keys":["banner_text"]}`)
		if err != nil || status != http.StatusOK {
			t.Fatalf("a configuration: %d %s %v", status, text, err)
		}
		id := header.Get("Cadenza-Trace-Id")
		next++
		status, header, text, err = post(ctx, client, p.url+"/v1/metrics",
			fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":%d,"ballast":%q}}`, id, next, ballast))
		if err != nil {
			t.Fatal(err)
		}
		switch status {
		case http.StatusOK:
			stored[next] = id
		case http.StatusServiceUnavailable:
			if header.Get("Retry-After") == "" || !strings.Contains(text, "store_unavailable") {
				t.Fatalf("refused without saying when and why: %v %s", header, text)
			}
		default:
			t.Fatalf("metrics: %d %s", status, text)
		}
		return status, header
	}
	refused := 0
	for refused < 20 {
		if status, _ := report(); status != http.StatusOK {
			refused++
		}
		if next > 5000 {
			t.Fatalf("the disk is not full after %d reports", next)
		}
	}
	if len(stored) < 50 {
		t.Errorf("only %d reports went on the disk", len(stored))
	}
	status, _, text, err := post(ctx, client, p.url+"/v1/endpoints", `{"key":"support_chat","variables":{"question":"Where is it?"}}`)
	if err != nil || status != http.StatusOK {
		t.Errorf("an endpoint on a full disk: %d %s %v", status, text, err)
	}

	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	p.eventually("metrics are taken again", func() bool {
		status, _ := report()
		return status == http.StatusOK
	})
	p.kill()
	checkStore(t, filepath.Join(disk, "cadenza.db"), stored)
	t.Logf("%d reports stored, %d refused", len(stored), next-int64(len(stored)))
}

// mountSmall mounts a disk at a directory, with a size in mount's syntax. It returns
// an error if the test lacks the rights, which is no failure.
func mountSmall(t *testing.T, directory, size string) error {
	t.Helper()
	if err := syscall.Mount("tmpfs", directory, "tmpfs", 0, "size="+size); err != nil {
		err = fmt.Errorf("a small disk can't be made, which takes the rights of root: %w", err)
		if os.Getenv(requireFullDisk) != "" {
			t.Fatal(err)
		}
		return err
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(directory, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}
