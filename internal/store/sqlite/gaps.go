package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
)

// SQLite zeroes what is deleted from a page, but not what it leaves behind when it
// redistributes the cells of neighbouring pages: a copy of a row may remain between
// the cells of a page that the row has left, long before the row is erased. Bytes
// between the cells are unused, so they can be overwritten.
// https://www.sqlite.org/fileformat2.html#b_tree_pages

// wipePages is how many pages one transaction overwrites at most.
const wipePages = 128

// wipeGaps zeroes what no cell uses, in all pages of trees.
func (e *erasure) wipeGaps(ctx context.Context) error {
	vacuum, err := queryInt(ctx, e.conn, "PRAGMA auto_vacuum")
	if err != nil {
		return err
	}
	if vacuum == 0 {
		if err := e.remake(ctx); err != nil {
			return err
		}
	}
	size, err := queryInt(ctx, e.conn, "PRAGMA page_size")
	if err != nil {
		return err
	}
	perMap := size / 5
	for first := int64(2); ; first += perMap + 1 { // a map and the pages that it describes
		count, err := queryInt(ctx, e.conn, "PRAGMA page_count")
		if err != nil || first > count {
			return err
		}
		trees := func(on querier) (pages []int64, err error) {
			return treePages(ctx, on, first, min(first+perMap, count), size)
		}
		pages, err := trees(e.conn)
		if err != nil {
			return err
		}
		if first == 2 {
			pages = append(pages, 1) // the root of the schema, which no map describes
		}
		gaps, err := gapsIn(ctx, e.conn, pages)
		if err != nil {
			return err
		}
		// A writer may have used the pages for something else meanwhile.
		for some := range slices.Chunk(gaps, wipePages) {
			if err := e.transact(ctx, func(tx *sql.Tx) error {
				still, err := trees(tx)
				if err != nil {
					return err
				}
				return wipe(ctx, tx, slices.DeleteFunc(some, func(p pageImage) bool {
					return p.number != 1 && !slices.Contains(still, p.number)
				}))
			}); err != nil {
				return err
			}
			if err := e.copyLog(ctx, []doomedRow{{size: int64(len(some)) * pageBytes}}); err != nil {
				return err
			}
		}
	}
}

// remake rewrites a file once that no Store made, such as one that SQLite's shell
// recovered from a damaged one: it has no map of its pages and can't give free ones
// back.
func (e *erasure) remake(ctx context.Context) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	if _, err := e.conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
		return err
	}
	_, err := e.conn.ExecContext(ctx, "VACUUM")
	return err
}

// The kinds of pages, as maps have them, that are parts of trees.
// https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages
const (
	rootPage  = 1
	innerPage = 5
)

// treePages returns which of the pages after a map, up to last, are of trees.
func treePages(ctx context.Context, on querier, first, last, size int64) (pages []int64, err error) {
	place := first
	if first == 1<<30/size+1 { // where SQLite locks files: it holds nothing
		place++
	}
	maps, err := readPages(ctx, on, []int64{place})
	if err != nil || len(maps) == 0 {
		return nil, err
	}
	for page := place + 1; page <= last; page++ {
		switch maps[0].data[5*(page-place-1)] {
		case rootPage, innerPage:
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// pageImage is the content of a page.
type pageImage struct {
	number int64
	data   []byte
}

// readPages reads those of the pages that exist.
func readPages(ctx context.Context, on querier, numbers []int64) ([]pageImage, error) {
	list, err := json.Marshal(numbers)
	if err != nil {
		return nil, err
	}
	return collect(ctx, on, func(scan func(...any) error) (p pageImage, err error) {
		return p, scan(&p.number, &p.data)
	}, "SELECT pgno, data FROM sqlite_dbpage WHERE pgno IN (SELECT value FROM json_each(?))", string(list))
}

// gapsIn returns the pages with bytes that no cell uses and that are not zero.
func gapsIn(ctx context.Context, on querier, numbers []int64) (gaps []pageImage, err error) {
	for some := range slices.Chunk(numbers, wipePages) {
		pages, err := readPages(ctx, on, some)
		if err != nil {
			return nil, err
		}
		for _, p := range pages {
			if zeroGaps(p.data, p.number == 1) {
				gaps = append(gaps, pageImage{number: p.number})
			}
		}
	}
	return gaps, nil
}

// wipe zeroes the gaps of pages, which are of trees.
func wipe(ctx context.Context, tx *sql.Tx, gaps []pageImage) error {
	numbers := make([]int64, len(gaps))
	for i := range gaps {
		numbers[i] = gaps[i].number
	}
	pages, err := readPages(ctx, tx, numbers)
	if err != nil {
		return err
	}
	for _, p := range pages {
		if !zeroGaps(p.data, p.number == 1) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?", p.data, p.number); err != nil {
			return fmt.Errorf("page %d: %w", p.number, err)
		}
	}
	return nil
}

// zeroGaps zeroes what no cell of a page of a tree uses: what is between the
// list of cells and the cells, and free blocks among these. It reports whether
// that changed anything. A page that is not as it must be is left alone.
func zeroGaps(page []byte, isFirst bool) (changed bool) {
	header := 0
	if isFirst {
		header = 100 // behind that of the file
	}
	number := func(at int) int { return int(binary.BigEndian.Uint16(page[at:])) }
	length := 8
	switch page[header] {
	case 2, 5: // it has children
		length = 12
	case 10, 13:
	default:
		return false
	}
	free, cells, top := number(header+1), number(header+3), number(header+5)
	if top == 0 {
		top = 1 << 16
	}
	end := header + length + 2*cells
	if end > top || top > len(page) {
		return false
	}
	changed = zero(page[end:top])
	for at := free; at >= top && at+4 <= len(page); {
		next, size := number(at), number(at+2)
		if size < 4 || at+size > len(page) {
			break
		}
		changed = zero(page[at+4:at+size]) || changed
		if next <= at { // the last one's is 0
			break
		}
		at = next
	}
	return changed
}

// zero reports whether the bytes were anything else.
func zero(b []byte) (changed bool) {
	changed = slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
	clear(b)
	return changed
}
