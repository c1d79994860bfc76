package caddymodule_test

import (
	"strings"
	"testing"
)

func TestAnswerSizeOption(t *testing.T) {
	for _, wrong := range []string{"0", "65MiB", "many", "1MiB 2MiB", "1MiB\nmax_answer_size 1MiB"} {
		if got := adapt("{\ncadenza {\nmax_answer_size " + wrong + "\n}\n}\n"); !strings.Contains(got, "max_answer_size") && !strings.Contains(got, "argument") {
			t.Errorf("%s: %s", wrong, got)
		}
	}
	g := startGateway(t, workspace, options)
	for _, wrong := range []string{"-1", "67108865"} {
		if err := g.loadJSON(options, `"definitions"`, `"max_answer_size":`+wrong+`,"definitions"`); err == nil || !strings.Contains(err.Error(), "max_answer_size") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
