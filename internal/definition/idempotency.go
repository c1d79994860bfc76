package definition

import "github.com/cadenza-gateway/cadenza/internal/document"

// decodeIdempotency reads whether an endpoint honours idempotency keys.
func (e *Endpoint) decodeIdempotency(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		return
	}
	e.Idempotency, _ = n.ReadBool(errs, "idempotency")
}
