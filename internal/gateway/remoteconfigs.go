package gateway

import (
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// remoteConfigs answers a request for remote configurations.
func (c *call) remoteConfigs() *wire.Error {
	request, err := c.request.RemoteConfigs()
	if err != nil {
		return err
	}
	c.asksKeys(nil, request.Keys)
	c.context, c.metadata = request.Context, request.Metadata
	if err := c.admitLate("", c.knowsOne(nil, request.Keys)); err != nil {
		return err
	}
	if err := c.bind(request.Context); err != nil {
		return err
	}

	size, recorded := c.pickConfigs(request.Keys, "")
	if err := c.makeRoom(wire.AnswersSize+size, recorded, "keys"); err != nil {
		return err
	}
	c.beginDecision(len(c.picked))
	c.out = wire.AppendAnswersEnd(c.appendConfigs(wire.AppendAnswersStart(c.out)))
	return c.answerKeys("keys")
}

// pickConfigs picks the remote configurations of the keys, as pickPrompts does
// prompts.
func (c *call) pickConfigs(keys []string, folder string) (size, recorded int) {
	for _, key := range keys {
		config := c.snapshot.RemoteConfig(key)
		if config == nil {
			c.unknown = append(c.unknown, wire.MissingKey{Folder: folder, Key: key})
			continue
		}
		decision := c.decide(trace.KindRemoteConfig, &config.Definition, config.Table())
		value := len(config.Value(decision))
		size += wire.AnswerSize(key, value, config.Type)
		if c.logs(&config.Definition) == definition.LogContent {
			recorded += value
		}
		c.picked = append(c.picked, picked{name: config.AskedAs(key), config: config, decision: decision})
	}
	return size, recorded
}

// appendConfigs appends the values of the remote configurations that were picked,
// and begins their traces.
func (c *call) appendConfigs(out []byte) []byte {
	for i := range c.picked {
		config, decision := c.picked[i].config, c.picked[i].decision
		if config == nil {
			continue
		}
		value := config.Value(decision)
		record := c.newRecord(trace.KindRemoteConfig, &config.Definition, config.Table(), decision)
		if c.logs(&config.Definition) == definition.LogContent {
			record.Response = append(record.Response[:0], value...)
		}
		c.noteAlias(record, &config.Definition, c.picked[i].name)
		out = wire.AppendAnswerStart(out, c.picked[i].name)
		out = append(out, value...)
		out = wire.AppendAnswerEnd(out, config.Type, record.ID)
		c.keep(record, &config.Definition)
	}
	return out
}

// picked is the definition that answers one key of a request, a prompt or a remote
// configuration, with its decision.
type picked struct {
	name     string // that the request asks for: the definition's key, or an alias
	prompt   *definition.Prompt
	config   *definition.RemoteConfig
	decision rules.Decision
}

// makeRoom takes room for an answer of size bytes and for recorded bytes in its
// traces, before anything is rendered: a request of a few bytes may ask for many
// megabytes. param is the member that names the keys, empty for several.
func (c *call) makeRoom(size, recorded int, param string) *wire.Error {
	if most := c.workspace.MaxAnswerSize; int64(size) > most {
		return wire.Errorf(wire.InvalidRequest, param, "The answer would have %d bytes, at most %d are allowed (max_answer_size). Ask for fewer keys at a time, or send shorter variables.", size, most)
	}
	if err := c.takeRoom(size+recorded, "Try again, or ask for fewer keys at a time."); err != nil {
		return err
	}
	c.out = slices.Grow(c.out[:0], size)
	return nil
}

// answerKeys sends the answer that was built for a request's keys and records
// its traces. param is as in makeRoom.
func (c *call) answerKeys(param string) *wire.Error {
	if len(c.unknown) > 0 {
		names := c.tellUnknown()
		c.w.Header()[wire.HeaderUnknownKeys] = []string{names}
		if c.answered == 0 {
			return wire.Errorf(wire.UnknownKey, param, "No definition has any of these keys: %s.", names)
		}
	}
	var id trace.ID
	if c.answered == 1 {
		id = c.lastTrace
	}
	c.setHeaders(id)
	if status := c.cacheStatus(); status != nil {
		c.w.Header()[wire.HeaderCacheStatus] = status
	}
	c.describeAnswers()
	now := time.Now()
	for _, record := range c.records {
		record.Latency = now.Sub(c.began)
	}
	c.completeRecords()
	c.giveRecords()
	c.countPicked()
	c.keepRoom(len(c.out)) // the recorder owns the traces
	c.deliver(http.StatusOK, c.out, now)
	return nil
}

// tellUnknown counts and logs the keys that no definition has, and returns their
// names for the answer's header.
func (c *call) tellUnknown() string {
	c.gateway.metrics.unknownKeys.WithLabelValues(c.route.name).Add(float64(len(c.unknown)))
	names := c.nameUnknown()
	c.workspace.Logger.Debug("a request named keys that no definition has",
		zap.String("route", c.route.name), zap.String("api_key", c.key.name), zap.String("keys", names))
	return names
}

// nameUnknown lists the keys that no definition has. A key that looks like a secret,
// sent by mistake, is counted and not named: headers and logs are kept.
func (c *call) nameUnknown() string {
	for i := range c.unknown {
		if key := c.unknown[i].Key; c.workspace.redactor.String(key) != key {
			c.unknown[i].Key = "" // not a legal key: wire counts it
		}
	}
	return wire.UnknownKeys(c.unknown)
}
