package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// keepUsesEvery is how often the uses of keys are stored.
const keepUsesEvery = time.Minute

// keepUsesTimeout bounds a store of them, also at the end of a workspace.
const keepUsesTimeout = 5 * time.Second

// useOf returns where the minute of a key's last use is noted, in Unix minutes. It stays over
// reloads and changes of the keys file.
func (m *Memory) useOf(key string) *atomic.Int64 {
	use, _ := m.uses.LoadOrStore(key, new(atomic.Int64))
	return use.(*atomic.Int64)
}

// use notes that the key was used. Most of the time it only reads.
func (p *principal) use(now time.Time) {
	if minute := now.Unix() / 60; p.used.Load() != minute {
		p.used.Store(minute)
	}
}

// lastUsed returns the minute of the last use since the process started, zero if there was
// none.
func (p *principal) lastUsed() time.Time {
	if minute := p.used.Load(); minute > 0 {
		return time.Unix(minute*60, 0).UTC()
	}
	return time.Time{}
}

// keepUses stores the uses of the workspace's keys every minute and at its end.
func (w *Workspace) keepUses(ctx context.Context) {
	kept := make(map[string]time.Time)
	ticker := time.NewTicker(keepUsesEvery)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		uses := make(map[string]time.Time)
		for _, key := range w.Keys() {
			if key.LastUsed.After(kept[key.Name]) {
				uses[key.Name] = key.LastUsed
			}
		}
		if len(uses) == 0 {
			continue
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepUsesTimeout)
		err := sqlite.KeepKeyUses(bounded, w.Store.Path, w.Name, uses)
		cancel()
		if err != nil {
			w.Logger.Warn("when API keys were used last can't be stored", zap.Error(err))
			continue
		}
		for name, at := range uses {
			kept[name] = at
		}
	}
}
