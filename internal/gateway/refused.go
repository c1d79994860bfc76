package gateway

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// countRefused counts a request that was refused before a provider was called. The
// workspace counts it or, without a valid API key, the process.
func (g *Gateway) countRefused(to *route, info *requestInfo, err *wire.Error) {
	if info.call != nil && info.call.attempts > 0 || err.Status != http.StatusServiceUnavailable && err.Status/100 != 4 {
		return
	}
	w := info.owner
	if w == nil {
		g.process.strangers.count(to.name, err, time.Now())
		return
	}
	id := recorder.RefusalID{
		Workspace: w.Name, APIKey: info.key, Route: to.name, Status: err.Status, Code: err.Name, Limit: err.Limit, Subject: err.Subject,
	}
	if info.asked != nil {
		id.Key = info.asked.Key
	}
	w.Store.Recorder.Refused(id, time.Now(), err.Message, err.Param, w.redactor.String)
}

// strangersKept is how long refusals without a valid API key are kept.
const strangersKept = 7 * 24 * time.Hour

// strangers counts the requests that were refused without a valid API key, by hour, route
// and code. The counts are in memory only, because anybody can send such requests.
type strangers struct {
	mu  sync.Mutex
	all map[Stranger]*Stranger // by its members but Count and Last
}

func (s *strangers) count(route string, err *wire.Error, now time.Time) {
	key := Stranger{Hour: now.UTC().Truncate(time.Hour), Route: route, Status: err.Status, Code: err.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.all[key]
	if c == nil {
		maps.DeleteFunc(s.all, func(old Stranger, _ *Stranger) bool { return key.Hour.Sub(old.Hour) >= strangersKept })
		if s.all == nil {
			s.all = make(map[Stranger]*Stranger)
		}
		c = new(key)
		s.all[key] = c
	}
	c.Count++
	c.Last = now
}

// Stranger counts the requests of one route that were refused with one code in an hour
// because they had no valid API key.
type Stranger struct {
	Hour   time.Time // its start
	Route  string
	Status int
	Code   string
	Count  int64
	Last   time.Time
}

// Strangers returns the counts of requests that were refused without a valid API key, by
// the hour and in no order. They cover the last 7 days at most, since the process started, and the whole
// hours that contain since and until. A zero time is no bound.
func (g *Gateway) Strangers(since, until time.Time) (list []Stranger) {
	s := &g.process.strangers
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if !since.IsZero() && c.Hour.Before(since.Truncate(time.Hour)) || !until.IsZero() && c.Hour.Unix() >= until.Unix() {
			continue
		}
		list = append(list, *c)
	}
	return list
}
