package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Postings say which traces have a value in a column, or a member in their
// metadata, so that these are found although no index has it. The task that counts
// the statistics writes them too, of the traces that it passed.
//
// Each value is a hash of 25 bits, its term: 7 bits are its bucket, 18 its rest. The
// traces of blockRows seqs are a block. A piece has the traces of one block that have
// a value of one bucket:
//
//	groups  2 bytes   how many values of columns follow
//	  rest  4 bytes   of each, then
//	  count 2 bytes   of its traces
//	  rows  2 bytes   of each trace: its seq is block * blockRows + row; or, if the
//	                  count is above maxListed, a bit for each row of the block
//	members 4 bytes   of each member of metadata: rest * blockRows + row
//
// A reader looks up the pieces of the values that it wants, one block after the
// other, and takes the rows that are in all. Of a value that no trace has that are
// some 2 kB for 16,384 traces.
//
// An entry promises nothing: its trace may have been deleted, written again under
// another seq, or have another value of the same hash. Readers look each trace up.
// No trace is missing: see postedBlock.
//
// A hash of what a trace said is personal data if the value was. So an erasure takes
// the entries of the traces away that it deletes; see cleanBlocks. Blocks whose traces
// are all deleted go within a minute.
//
// Why no index: docs/adr/0003-posting-lists.md. BenchmarkFindingByKey says what a
// trace costs.

const (
	// postingsCursor is the name of the postings' row among the cursors.
	postingsCursor = "postings"

	// blockRows is how many seqs a block has. The traces after the last block are
	// read with each list, so more would make lists slower, and fewer would make
	// writing dearer.
	blockRows = 1 << 14

	// maxUnposted bounds how many traces after the last block a list reads.
	maxUnposted = 3 * blockRows

	postBuckets = 1 << 7
	restBits    = 18

	// maxListed is up to how many rows of a value in a column are listed: above, a
	// bit for each row of the block takes less.
	maxListed = blockRows / 16

	// maxMembers is how many members of a trace's metadata are posted. Beyond, the
	// trace is looked at by each search for metadata.
	maxMembers = 32
)

// term is the hash of a value.
type term uint32

func (t term) bucket() int  { return int(t >> restBits) }
func (t term) rest() uint32 { return uint32(t) & (1<<restBits - 1) }

func placeOf(bucket int, block int64) int64 { return int64(bucket)<<32 + block }

// rowSet is a set of rows of a block.
type rowSet [blockRows / 64]uint64

func (s *rowSet) add(row uint16)      { s[row/64] |= 1 << (row % 64) }
func (s *rowSet) has(row uint16) bool { return s[row/64]>>(row%64)&1 != 0 }

// postedNames are values of columns that many traces have in common.
type postedNames struct {
	terms []term
	torn  bool // there are others
	block int64
	lists []*[]uint16 // of the terms in the block
}

// postedBlock is a block that is being made. What has no term is not left out: the
// block says that it has such traces, and they are found in any case.
type postedBlock struct {
	first, last trace.ID
	names       map[term]*[]uint16
	members     [postBuckets][]uint32
	torn, odd   bool
}

// posting is what was read and is not written: the traces after the cursor until a
// seq, and perhaps others, which does no harm.
type posting struct {
	blocks      map[int64]*postedBlock
	from, until int64
	erased      int64 // how many deletions of erasures had been when the first was read
	terms       []term
}

// add puts a trace into the block of its seq.
func (p *posting) add(seq int64, id trace.ID, workspace, metadata string, names ...*postedNames) {
	number, row := seq/blockRows, uint16(seq%blockRows)
	b := p.blocks[number]
	if b == nil {
		b = &postedBlock{first: id, last: id, names: make(map[term]*[]uint16)}
		p.blocks[number] = b
	}
	if compareIDs(id, b.first) < 0 {
		b.first = id
	}
	if compareIDs(id, b.last) > 0 {
		b.last = id
	}
	for _, n := range names {
		if n.block != number || n.lists == nil {
			b.addNames(n, number)
		}
		for _, list := range n.lists {
			*list = append(*list, row)
		}
	}
	var whole bool
	p.terms, whole = metadataTerms(p.terms[:0], workspace, metadata)
	for _, t := range p.terms {
		b.members[t.bucket()] = append(b.members[t.bucket()], t.rest()*blockRows+uint32(row))
	}
	if !whole {
		b.odd = true
		list := b.list(oddTerm(workspace))
		*list = append(*list, row)
	}
}

// merge adds what another has.
func (p *posting) merge(other *posting) {
	for number, from := range other.blocks {
		b := p.blocks[number]
		if b == nil {
			p.blocks[number] = from
			continue
		}
		if compareIDs(from.first, b.first) < 0 {
			b.first = from.first
		}
		if compareIDs(from.last, b.last) > 0 {
			b.last = from.last
		}
		for t, rows := range from.names {
			list := b.list(t)
			*list = append(*list, *rows...)
		}
		for bucket, members := range from.members {
			b.members[bucket] = append(b.members[bucket], members...)
		}
		b.torn, b.odd = b.torn || from.torn, b.odd || from.odd
	}
}

func (b *postedBlock) addNames(n *postedNames, number int64) {
	n.block, n.lists = number, n.lists[:0]
	for _, t := range n.terms {
		n.lists = append(n.lists, b.list(t))
	}
	b.torn = b.torn || n.torn
}

func (b *postedBlock) list(t term) *[]uint16 {
	list := b.names[t]
	if list == nil {
		list = new([]uint16)
		b.names[t] = list
	}
	return list
}

// pieces calls yield with the pieces of the block, by their buckets. They are valid
// until yield returns.
func (b *postedBlock) pieces(yield func(bucket int, piece []byte) error) error {
	var of [postBuckets][]term
	for _, t := range slices.Sorted(maps.Keys(b.names)) {
		of[t.bucket()] = append(of[t.bucket()], t)
	}
	var piece []byte
	for bucket := range of {
		piece = binary.LittleEndian.AppendUint16(piece[:0], uint16(len(of[bucket])))
		for _, t := range of[bucket] {
			piece = appendGroup(piece, t.rest(), *b.names[t])
		}
		for _, member := range b.members[bucket] {
			piece = binary.LittleEndian.AppendUint32(piece, member)
		}
		if len(piece) == 2 {
			continue
		}
		if err := yield(bucket, piece); err != nil {
			return err
		}
	}
	return nil
}

func appendGroup(piece []byte, rest uint32, rows []uint16) []byte {
	piece = binary.LittleEndian.AppendUint32(piece, rest)
	// A step that is done again adds its rows twice.
	piece = binary.LittleEndian.AppendUint16(piece, uint16(min(len(rows), blockRows)))
	if len(rows) <= maxListed {
		for _, row := range rows {
			piece = binary.LittleEndian.AppendUint16(piece, row)
		}
		return piece
	}
	var set rowSet
	for _, row := range rows {
		set.add(row)
	}
	for _, word := range set {
		piece = binary.LittleEndian.AppendUint64(piece, word)
	}
	return piece
}

// eachGroup calls yield with the groups of a piece, and returns the members that
// come after them. A group is a list of rows or, with bits, a rowSet.
func eachGroup(piece []byte, yield func(rest uint32, rows []byte, bits bool)) (members []byte) {
	if len(piece) < 2 {
		return nil
	}
	groups := binary.LittleEndian.Uint16(piece)
	for piece = piece[2:]; groups > 0 && len(piece) >= 6; groups-- {
		rest, count := binary.LittleEndian.Uint32(piece), int(binary.LittleEndian.Uint16(piece[4:]))
		size, bits := 2*count, count > maxListed
		if bits {
			size = blockRows / 8
		}
		size = min(size, len(piece)-6)
		yield(rest, piece[6:6+size], bits)
		piece = piece[6+size:]
	}
	return piece
}

// mark adds the rows of a piece that have the value of a rest.
func (s *rowSet) mark(piece []byte, rest uint32) {
	members := eachGroup(piece, func(of uint32, rows []byte, bits bool) {
		switch {
		case of != rest:
		case bits:
			for i := 0; i+8 <= len(rows); i += 8 {
				s[i/8] |= binary.LittleEndian.Uint64(rows[i:])
			}
		default:
			for i := 0; i+2 <= len(rows); i += 2 {
				s.add(binary.LittleEndian.Uint16(rows[i:]) % blockRows)
			}
		}
	})
	for ; len(members) >= 4; members = members[4:] {
		if member := binary.LittleEndian.Uint32(members); member/blockRows == rest {
			s.add(uint16(member % blockRows))
		}
	}
}

// onlyRows returns the piece without the rows that are not in the set.
func onlyRows(piece []byte, kept *rowSet) []byte {
	only, groups := []byte{0, 0}, uint16(0)
	members := eachGroup(piece, func(rest uint32, packed []byte, bits bool) {
		var rows []uint16
		for row := range uint16(blockRows) {
			if bits && kept.has(row) && packed[row/8]>>(row%8)&1 != 0 {
				rows = append(rows, row)
			}
		}
		for i := 0; !bits && i+2 <= len(packed); i += 2 {
			if row := binary.LittleEndian.Uint16(packed[i:]) % blockRows; kept.has(row) {
				rows = append(rows, row)
			}
		}
		if len(rows) > 0 {
			only, groups = appendGroup(only, rest, rows), groups+1
		}
	})
	binary.LittleEndian.PutUint16(only, groups)
	for ; len(members) >= 4; members = members[4:] {
		if kept.has(uint16(binary.LittleEndian.Uint32(members) % blockRows)) {
			only = append(only, members[:4]...)
		}
	}
	return only
}

// postingsProgress is up to which seq all traces are posted, and how often an
// erasure deleted traces.
func postingsProgress(ctx context.Context, on queryer) (posted, erased int64, err error) {
	err = on.QueryRowContext(ctx, "SELECT traces, erasures FROM cursors WHERE sink = ?", postingsCursor).Scan(&posted, &erased)
	return posted, erased, err
}

// erasedSQL is how often an erasure deleted traces.
const erasedSQL = "SELECT erasures FROM cursors WHERE sink = '" + postingsCursor + "'"

// catchUp reads some of the traces up to counted that were counted and not posted:
// by an earlier version, by another process, or by one that ended before their block
// was full.
func (p *posting) catchUp(ctx context.Context, on querier, counted int64) (behind bool, err error) {
	posted, erased, err := postingsProgress(ctx, on)
	if err != nil {
		return false, err
	}
	if p.blocks == nil || p.from != posted || p.erased != erased {
		*p = posting{blocks: make(map[int64]*postedBlock), from: posted, until: posted, erased: erased}
	}
	if p.until >= counted {
		return false, nil
	}
	until, err := endOfRows(ctx, on, "traces", p.until, statsRows)
	if err != nil {
		return false, err
	}
	// What is counted here is counted already.
	p.until, err = tallies{}.countTraces(ctx, on, p.until, min(until, counted), math.MaxInt, clauses{}, p)
	return true, err
}

// writePostings writes the blocks of which all traces were read, each in a
// transaction that moves the cursor.
func (k *statsKeeper) writePostings(ctx context.Context) error {
	p := &k.posting
	end := (p.until + 1) / blockRows * blockRows // that of the blocks that are whole
	if end-1 <= p.from {
		return nil
	}
	numbers := slices.DeleteFunc(slices.Sorted(maps.Keys(p.blocks)), func(n int64) bool { return (n+1)*blockRows > end })
	for i, number := range numbers {
		to := (number+1)*blockRows - 1
		if i == len(numbers)-1 {
			to = end - 1
		}
		if written, err := k.writeBlock(ctx, number, p.blocks[number], to); err != nil || !written {
			return err // catchUp begins again behind the cursor
		}
		delete(p.blocks, number)
		p.from = to
	}
	if len(numbers) == 0 {
		_, err := k.writeBlock(ctx, 0, nil, end-1)
		p.from = end - 1
		return err
	}
	return nil
}

// writeBlock writes a block, if there is one, and moves the cursor, unless another
// process moved it or an erasure deleted what the block may have.
func (k *statsKeeper) writeBlock(ctx context.Context, number int64, b *postedBlock, to int64) (written bool, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
	}()
	result, err := tx.ExecContext(ctx, "UPDATE cursors SET traces = ? WHERE sink = ? AND traces = ? AND erasures = ?",
		to, postingsCursor, k.posting.from, k.posting.erased)
	if err != nil {
		return false, err
	}
	if moved, err := result.RowsAffected(); err != nil || moved == 0 {
		return false, err
	}
	if b != nil {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO posting_blocks (block, first, last, torn, odd, stale) VALUES (?, ?, ?, ?, ?, 0)",
			number, b.first[:], b.last[:], b.torn, b.odd); err != nil {
			return false, err
		}
		insert := tx.StmtContext(ctx, k.post)
		if err := b.pieces(func(bucket int, piece []byte) error {
			_, err := insert.ExecContext(ctx, placeOf(bucket, number), piece)
			return err
		}); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

const (
	insertPiece = "INSERT OR REPLACE INTO posting_pieces (place, entries) VALUES (?, ?)"

	// emptyBlocks is the query of the blocks whose traces are all deleted.
	emptyBlocks = `
SELECT block FROM posting_blocks AS b
WHERE NOT EXISTS (SELECT 1 FROM traces WHERE seq >= b.block * ?1 AND seq < (b.block + 1) * ?1)`

	piecesOf = "posting_pieces WHERE place IN (SELECT (value << 32) + ?1 FROM json_each(?2))"

	// What one transaction deletes of the lists of earlier versions.
	expireLists = 128
	oldLists    = `
DELETE FROM postings WHERE (workspace, field, value, last, written) IN (SELECT workspace, field, value, last, written FROM postings LIMIT ?)`
)

// allBuckets is a JSON array of all buckets.
var allBuckets = func() string {
	list := "[0"
	for bucket := 1; bucket < postBuckets; bucket++ {
		list += fmt.Sprint(",", bucket)
	}
	return list + "]"
}()

// expirePostings deletes the blocks whose traces are all deleted, and the lists that
// an earlier version kept.
func (k *statsKeeper) expirePostings(ctx context.Context) error {
	for {
		some, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM postings)")
		if err != nil {
			return err
		}
		if some == 0 {
			break
		}
		if err := k.execute(ctx, oldLists, expireLists); err != nil {
			return err
		}
	}
	empty, err := collect(ctx, k.db, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) }, emptyBlocks, blockRows)
	if err != nil {
		return err
	}
	for _, number := range empty { // no trace gets a seq that another had
		if err := k.execute(ctx, "DELETE FROM "+piecesOf, number, allBuckets); err != nil {
			return err
		}
		if err := k.execute(ctx, "DELETE FROM posting_blocks WHERE block = ?", number); err != nil {
			return err
		}
	}
	return nil
}
