package gateway

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// TestLogMistakes checks that each mistake is logged with its place, and that an error
// without a file is logged unchanged.
func TestLogMistakes(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Logger: zap.New(core)}}
	w.logMistakes("invalid", errors.New("loading takes too long"))
	if all := logs.TakeAll(); len(all) != 1 || all[0].ContextMap()["error"] != "loading takes too long" {
		t.Errorf("an error: %+v", all)
	}
	var errs document.Errors
	for range maxMistakes + 2 {
		errs.AddAt(document.Position{File: "a.yaml", Line: 3, Column: 1}, "wrong")
	}
	w.logMistakes("invalid", errs.Err())
	all := logs.TakeAll()
	if len(all) != maxMistakes+2 || all[1].ContextMap()["mistake"] != "wrong" || all[1].ContextMap()["line"] != int64(3) {
		t.Errorf("mistakes: %+v", all)
	}
}
