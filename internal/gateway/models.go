package gateway

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// models answers with the keys of all endpoints, which OpenAI's API calls models.
func (c *call) models() outcome {
	keys := slices.Sorted(maps.Keys(c.snapshot.Endpoints))
	return c.giveModels(openai.AppendModels(c.out[:0], keys, c.snapshot.Loaded))
}

// anthropicModels answers as models does, in the shape of Anthropic's API.
func (c *call) anthropicModels() outcome {
	keys := slices.Sorted(maps.Keys(c.snapshot.Endpoints))
	return c.giveModels(messages.AppendModels(c.out[:0], keys, c.snapshot.Loaded))
}

// model answers with the endpoint that the path names as a model, or with a 404.
func (c *call) model() outcome {
	return c.oneModel(openai.AppendModel)
}

// anthropicModel answers as model does, in the shape of Anthropic's API.
func (c *call) anthropicModel() outcome {
	return c.oneModel(messages.AppendModel)
}

func (c *call) oneModel(appendTo func(dst []byte, key string, loaded time.Time) []byte) outcome {
	endpoint := c.snapshot.Endpoint(c.pathID)
	if endpoint == nil {
		return refused(wire.Errorf(wire.ModelNotFound, "model", "There is no endpoint %s. GET /v1/models lists those that there are.", printable(c.pathID)))
	}
	return c.giveModels(appendTo(c.out[:0], endpoint.AskedAs(c.pathID), c.snapshot.Loaded))
}

func (c *call) giveModels(body []byte) outcome {
	c.out = body
	if full := c.takeRoom(len(body), adviseRepetition); full != nil {
		return refused(full)
	}
	h := c.w.Header()
	h[wire.HeaderRevision] = []string{c.snapshot.Revision}
	h[c.route.requestID] = []string{newRequestID()}
	c.deliver(http.StatusOK, body, time.Now())
	return outcome{end: answered}
}
