package command

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns the two ends of a pseudo-terminal of a width.
func openTerminal(t *testing.T, width uint16) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	control := func(request uintptr, argument unsafe.Pointer) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(argument)); errno != 0 {
			t.Skipf("this system has no pseudo-terminals: %v", errno)
		}
	}
	var number, locked int32
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&[4]uint16{24, width}))
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// TestTheWidthOfATerminal lists traces on a terminal, which is asked how wide it
// is unless COLUMNS says so.
func TestTheWidthOfATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	server := httptest.NewServer(new(fakeGateway))
	defer server.Close()
	list := func(columns string) string {
		t.Setenv("COLUMNS", columns)
		keyboard, screen := openTerminal(t, 90)
		var errors bytes.Buffer
		must(t, gatewayCommand(t.Context(), screen, &errors, "traces", "--address", server.Listener.Addr().String()))
		must(t, screen.Close())
		// One Read may have a part of it: the kernel passes it on in the background.
		text, _ := io.ReadAll(keyboard) // the end of what is written is an error
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	for columns, width := range map[string]int{"": 90, "x": 90, "200": 200} {
		text := list(columns)
		holdWidth(t, text, width)
		if strings.Contains(text, "\x1b") || !strings.Contains(text, "\n0199000100008200800000000000000") {
			t.Errorf("COLUMNS=%s:\n%s", columns, text)
		}
		if widest := strings.Contains(text, "remoteconfig"); widest != (width == 200) {
			t.Errorf("on %d columns:\n%s", width, text)
		}
	}
}
