package messages

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The parts of a request that may have marks for the cache, in the order in which models
// read them.
const (
	markTools = iota
	markSystem
	markMessages
	markGroups
)

// marks are the caller's marks for the cache: the block that is being read has cache, whose
// path is at. paths are those of the marks that were placed.
type marks struct {
	cache providers.Cache
	at    string
	paths [markGroups][]string

	whole providers.Cache // of the whole request
}

// cacheControl reads a mark at the path of its block.
func (p *parser) cacheControl(of *openai.Path, v *fastjson.Value) (cache providers.Cache, err *wire.Error) {
	at := of.Member("cache_control")
	o, err := openai.Object(at, v)
	if err != nil {
		return 0, err
	}
	if openai.Text(o.Get("type")) != "ephemeral" {
		return 0, at.Member("type").Wrong("must be ephemeral.")
	}
	cache = providers.CacheShort
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch name := string(key); {
		case name == "type" || v.Type() == fastjson.TypeNull || err != nil:
		case name != "ttl":
			p.Ignore(at.Member(wire.Clip(name)).String())
		case openai.Text(v) == "1h":
			cache = providers.CacheHour
		case openai.Text(v) != "5m":
			err = at.Member(name).Wrong("must be 5m or 1h.")
		}
	})
	return cache, err
}

// cacheRequest reads the mark of the whole request, which is on its last block.
func (p *parser) cacheRequest(v *fastjson.Value) (err *wire.Error) {
	p.marks.whole, err = p.cacheControl(nil, v)
	return err
}

// markedBlock reads the mark of a block, which is placed by place. That of a block within a
// tool's result or a document becomes the mark of the whole, which APIs cache alone.
func (p *parser) markedBlock(of *openai.Path, v *fastjson.Value) *wire.Error {
	cache, err := p.cacheControl(of, v)
	p.marks.cache, p.marks.at = max(p.marks.cache, cache), of.Member("cache_control").String()
	return err
}

// place puts the mark of the block that was read on the last of the parts that it became.
// Thoughts and texts without characters can't have one.
func (p *parser) place(group int, parts []providers.Part) {
	m := &p.marks
	if m.cache == 0 {
		return
	}
	if n := len(parts); n > 0 && markable(&parts[n-1]) {
		parts[n-1].Cache = m.cache
		m.paths[group] = append(m.paths[group], m.at)
	} else {
		p.Ignore(m.at)
	}
	m.cache = 0
}

func markable(p *providers.Part) bool {
	return p.Kind != providers.PartThinking && (p.Kind != providers.PartText || !p.Text.Blank())
}

// placeWhole puts the mark of the whole request on its last part that can have one, and
// lists all marks.
func (p *parser) placeWhole(turns []providers.Message) {
	m := &p.marks
	placed := m.whole == 0
	for i := len(turns) - 1; i >= 0 && !placed; i-- {
		t := &turns[i]
		parts := t.Parts
		if parts == nil {
			parts = []providers.Part{{Kind: providers.PartText, Text: t.Content}}
		}
		for j := len(parts) - 1; j >= 0 && !placed; j-- {
			if part := &parts[j]; markable(part) {
				if placed = true; part.Cache == 0 {
					part.Cache = m.whole
					t.Content, t.Parts = "", parts
					m.paths[markMessages] = append(m.paths[markMessages], "cache_control")
				}
			}
		}
	}
	if !placed {
		p.Ignore("cache_control")
	}
	p.Call.Marks = slices.Concat(m.paths[:]...)
}
