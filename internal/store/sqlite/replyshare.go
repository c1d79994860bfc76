package sqlite

import (
	"context"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// replySharePart is the divisor of the file's size that gives the share of replies.
	// Replies are useful for a day; the file is for traces and metrics, which must not be
	// deleted for replies.
	replySharePart = 10

	// defaultReplyShare is the share of replies in a file without a size, in bytes.
	defaultReplyShare = 1 << 30

	// replyKeyPart is the divisor of that share that gives the part of one API key,
	// so that no key evicts the replies of others.
	replyKeyPart = 4

	// replyOverhead is about how many bytes a reply takes in the file besides its body and
	// its key, which is in an index too. It makes a bound in bytes bound the number of
	// replies too.
	replyOverhead = 256
)

// replySize returns about how many bytes a reply takes in the file.
func replySize(r *trace.Reply) int64 {
	return replyOverhead + 2*int64(len(r.Key)) + int64(len(r.Body))
}

// replyShare returns how many bytes of the file all replies together may take.
func (s *Store) replyShare() int64 {
	if limit := s.config.CurrentMaxSize(); limit > 0 {
		return limit / replySharePart
	}
	if s.config.replyShare > 0 {
		return s.config.replyShare
	}
	return defaultReplyShare
}

// replyOwner is the API key of a workspace whose replies are counted together.
type replyOwner struct{ workspace, apiKey string }

// replyTotal is the size of the replies of an API key.
type replyTotal struct {
	replyOwner
	bytes int64
}

// shrinkReplies deletes some of the oldest replies of API keys above their part and then,
// while all replies are above their share, of all keys. It reports whether there may be
// more.
func (s *Store) shrinkReplies(ctx context.Context) (more bool, err error) {
	share := s.replyShare()
	totals, err := collect(ctx, s.conn, func(scan func(...any) error) (t replyTotal, err error) {
		return t, scan(&t.workspace, &t.apiKey, &t.bytes)
	}, "SELECT workspace, api_key, bytes FROM reply_totals WHERE bytes > 0")
	if err != nil {
		return false, err
	}
	all := int64(0)
	var over *replyTotal
	for i := range totals {
		all += totals[i].bytes
		if totals[i].bytes > share/replyKeyPart {
			over = &totals[i]
		}
	}
	if over == nil && all <= share {
		return false, nil
	}
	evicted := make(map[replyOwner]eviction)
	err = s.shared.transact(s.maintains(ctx), func() error {
		for began := time.Now(); time.Since(began) < shrinkTime; {
			var freed int64
			var err error
			switch {
			case over != nil && over.bytes > share/replyKeyPart:
				freed, err = s.deleteOldestReplies(ctx, over.bytes-share/replyKeyPart, evicted,
					"WHERE workspace = ? AND api_key = ?", over.workspace, over.apiKey)
				over.bytes -= freed
			case over == nil && all > share:
				freed, err = s.deleteOldestReplies(ctx, all-share, evicted, "")
				all -= freed
			}
			if err != nil || freed == 0 {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for owner, e := range evicted {
		s.loss.addReplies(owner, e)
		s.config.OnEvicted("replies", e.rows, e.newest)
	}
	return len(evicted) > 0, nil
}

// deleteOldestReplies deletes a few of the oldest replies, up to excess bytes, and counts
// them by their owners.
func (s *Store) deleteOldestReplies(ctx context.Context, excess int64, evicted map[replyOwner]eviction, where string, args ...any) (freed int64, err error) {
	type reply struct {
		replyOwner
		seq, size, timeMillis int64
	}
	oldest, err := collect(ctx, s.conn, func(scan func(...any) error) (r reply, err error) {
		return r, scan(&r.seq, &r.workspace, &r.apiKey, &r.size, &r.timeMillis)
	}, "SELECT seq, workspace, api_key, size, time_ms FROM replies "+where+" ORDER BY time_ms LIMIT ?", append(args, shrinkRows)...)
	if err != nil {
		return 0, err
	}
	var doomed []int64
	for _, r := range oldest {
		if freed >= excess {
			break
		}
		freed += r.size
		doomed = append(doomed, r.seq)
		e := evicted[r.replyOwner]
		e.add(1, time.UnixMilli(r.timeMillis))
		evicted[r.replyOwner] = e
	}
	return freed, s.deleteRows(ctx, repliesTable, doomed)
}

var repliesTable = &table{name: "replies"}
