// Package freeport finds ports for tests, of servers that take an address and not a listener.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports are given out below those that systems give to outgoing connections: 32768 and up on
// Linux, 49152 and up elsewhere. Tests make thousands of these, and one of them would
// sometimes have the port before the server listens.
const (
	least = 10_000
	most  = 32_000
)

// given are the ports that this process has given out. Their servers may not listen yet.
var given sync.Map

// Address returns an address of this machine, 127.0.0.1:PORT, on which nobody listens by TCP
// or UDP. It returns another one each time.
func Address(t testing.TB) string {
	t.Helper()
	var err error
	for range 1000 {
		port := least + rand.IntN(most-least)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = free(address); err == nil {
			return address
		}
	}
	t.Fatalf("no port is free: %v", err)
	return ""
}

// Port returns the port of Address.
func Port(t testing.TB) int {
	t.Helper()
	_, port, _ := net.SplitHostPort(Address(t))
	number, _ := strconv.Atoi(port)
	return number
}

func free(address string) error {
	stream, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	return packets.Close()
}
