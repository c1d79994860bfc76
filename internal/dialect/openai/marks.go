package openai

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The parts of a request that may have marks for the cache, in the order in which models
// read them.
const (
	markTools = iota
	MarkSystem
	MarkMessages
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

// mark reads a mark at the path of its block.
func (r *Request) mark(of *Path, v *fastjson.Value) (cache providers.Cache, err *wire.Error) {
	at := of.Member("cache_control")
	o, err := Object(at, v)
	if err != nil {
		return 0, err
	}
	if Text(o.Get("type")) != "ephemeral" {
		return 0, at.Member("type").Wrong("must be ephemeral.")
	}
	cache = providers.CacheShort
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch name := string(key); {
		case name == "type" || v.Type() == fastjson.TypeNull || err != nil:
		case name != "ttl":
			r.Ignore(at.Member(wire.Clip(name)).String())
		case Text(v) == "1h":
			cache = providers.CacheHour
		case Text(v) != "5m":
			err = at.Member(name).Wrong("must be 5m or 1h.")
		}
	})
	return cache, err
}

// MarkRequest reads the mark of the whole request, which is on its last block.
func (r *Request) MarkRequest(v *fastjson.Value) (err *wire.Error) {
	r.marks.whole, err = r.mark(nil, v)
	return err
}

// MarkTool reads the mark of a tool.
func (r *Request) MarkTool(of *Path, v *fastjson.Value, t *providers.Tool) *wire.Error {
	cache, err := r.mark(of, v)
	if err == nil && t.Cache == 0 {
		t.Cache = cache
		r.marks.paths[markTools] = append(r.marks.paths[markTools], of.Member("cache_control").String())
	}
	return err
}

// MarkBlock reads the mark of a block, which Place places. That of a block within a tool's
// result or a document becomes the mark of the whole, which APIs cache alone.
func (r *Request) MarkBlock(of *Path, v *fastjson.Value) *wire.Error {
	cache, err := r.mark(of, v)
	r.marks.cache, r.marks.at = max(r.marks.cache, cache), of.Member("cache_control").String()
	return err
}

// Marked reports whether the block that was read has a mark.
func (r *Request) Marked() bool { return r.marks.cache > 0 }

// Place puts the mark of the block that was read on the last of the parts that it became.
// Thoughts and texts without characters can't have one.
func (r *Request) Place(group int, parts []providers.Part) {
	m := &r.marks
	if m.cache == 0 {
		return
	}
	if n := len(parts); n > 0 && markable(&parts[n-1]) {
		parts[n-1].Cache = m.cache
		m.paths[group] = append(m.paths[group], m.at)
	} else {
		r.Ignore(m.at)
	}
	m.cache = 0
}

func markable(p *providers.Part) bool {
	return p.Kind != providers.PartThinking && (p.Kind != providers.PartText || !p.Text.Blank())
}

// placeOn puts a mark on the last part of a turn that can have one, unless it has one. It
// reports whether there is such a part.
func (r *Request) placeOn(t *providers.Message, cache providers.Cache, at string) bool {
	parts := t.Parts
	if parts == nil {
		parts = []providers.Part{{Kind: providers.PartText, Text: t.Content}}
	}
	for i := range slices.Backward(parts) {
		part := &parts[i]
		if !markable(part) {
			continue
		}
		if part.Cache == 0 {
			part.Cache = cache
			t.Content, t.Parts = "", parts
			r.marks.paths[MarkMessages] = append(r.marks.paths[MarkMessages], at)
		}
		return true
	}
	return false
}

// PlaceMarks puts the mark of the whole request on the last part of the turns that can have
// one, and lists all marks. It is called once all members are read.
func (r *Request) PlaceMarks(turns []providers.Message) {
	m := &r.marks
	placed := m.whole == 0
	for i := len(turns) - 1; i >= 0 && !placed; i-- {
		placed = r.placeOn(&turns[i], m.whole, "cache_control")
	}
	if !placed {
		r.Ignore("cache_control")
	}
	r.Call.Marks = slices.Concat(m.paths[:]...)
}
