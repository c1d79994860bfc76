package limit

import "time"

const (
	// largestStep is what a shard of all accounts may take at most.
	largestStep = 64 << 20

	// minGrowth is how much a file grows, in bytes, before it is written anew.
	minGrowth = 1 << 20
)

// begin begins to write all accounts to the file that is not in use.
func (f *file) begin() {
	other := 1 - f.used
	f.generation++
	f.ends[other] = 0
	err := f.disk.truncate(f.files[other], 0)
	if err == nil {
		err = f.put(other, appendHeader(nil, f.generation, f.seed))
	}
	if err != nil {
		f.fail(err)
		f.later()
		return
	}
	f.shard = 0
	f.mu.Lock()
	f.building, f.next, f.begun = true, nil, len(f.rewrites)
	f.mu.Unlock()
	f.poke()
}

// build writes the accounts of a shard to the other file, and drops those that count
// nothing any more. Calls of other shards go on meanwhile.
func (f *file) build() {
	l := f.limiter
	lock := &l.locks[f.shard]
	lock.Lock()
	defer lock.Unlock()
	f.mu.Lock()
	now := f.now
	f.mu.Unlock()
	if now == 0 {
		now = time.Now().UnixNano()
	}
	text, at := f.spare.step[:0], 0
	for _, b := range *l.books.Load() {
		for _, a := range b.accounts[f.shard] {
			if l.drop(a, now) {
				continue
			}
			// One that has nothing gets its name with its next change.
			if a.named = l.any(a, now); !a.named {
				continue
			}
			if at == len(text) {
				text = append(text, make([]byte, frameSize)...)
			}
			text = l.appendAccount(text, a, false, now)
			if len(text)-at > chunk {
				seal(text, at, f.seed)
				at = len(text)
			}
		}
	}
	if at < len(text) {
		seal(text, at, f.seed)
	}
	f.mu.Lock()
	f.next = append(f.next, text...)
	f.mu.Unlock()
	f.spare.step = kept(text)
	f.shard++
}

// finish puts the other file, which has all accounts, in the place of the one in use.
func (f *file) finish(err error) {
	f.synced = nil
	if err == nil {
		f.flush()
	}
	if !f.building {
		return
	}
	if err == nil {
		whole := make([]byte, frameSize)
		seal(whole, 0, f.seed)
		err = f.put(1-f.used, whole)
	}
	if err != nil {
		f.fail(err)
		f.abandon()
		return
	}
	old := f.files[f.used]
	f.used = 1 - f.used
	f.header = appendHeader(nil, f.generation, f.seed)
	f.bound = minGrowth + 3*f.ends[f.used]
	f.mu.Lock()
	mended := f.err != nil
	f.building, f.ok, f.err = false, true, nil
	f.out, f.next = append(f.out[:0], f.next...), f.next[:0]
	f.mu.Unlock()
	f.pause = 0
	f.again.Stop()
	if mended {
		f.logger.Info("limits are being kept again", "file", f.path)
	}
	if f.disk.truncate(old, 0) == nil { // what it has is older
		f.rewritten()
	}
}

// abandon gives the other file up. The one in use, if that can be written, goes on.
func (f *file) abandon() {
	f.mu.Lock()
	f.building, f.next = false, nil
	f.mu.Unlock()
	f.synced = nil
	_ = f.disk.truncate(f.files[1-f.used], 0) // without the mark that it is whole it has nothing
	f.later()
}

// complete goes on until the other file is in use, or given up.
func (f *file) complete() {
	for f.building {
		f.step()
		if f.synced != nil {
			f.finish(<-f.synced)
		}
	}
}
