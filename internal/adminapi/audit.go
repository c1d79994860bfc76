package adminapi

import (
	"context"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// audited notes what a visitor of the console did. subject names what it was done to, such
// as a file or a trace; before and after say what the subject was and is, if that can be
// said in a line. What comes by Caddy's admin address has no visitor, and isn't noted.
func (w *Workspace) audited(ctx context.Context, action, subject, before, after string) {
	visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor)
	if !ok {
		return
	}
	w.Logger.Info("console", zap.String("action", action), zap.String("subject", subject), zap.String("by", visitor.Key), zap.String("before", before), zap.String("after", after))
}
