// Package modetest checks that files are their owner's alone.
package modetest
