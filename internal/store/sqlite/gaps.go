package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
)

// With secure_delete SQLite zeroes deleted cells, but not the bytes that stay behind when
// it moves cells between neighbouring pages. So a copy of a row may remain between the
// cells of a page that the row has left, long before the row is erased. Bytes between the
// cells are unused, so an erasure can overwrite them.
// https://www.sqlite.org/fileformat2.html#b_tree_pages
//
// VACUUM does that too, but keeps the writer out until it ends. On a file of 1.6 GB with up
// to 500 reports a second it took 14 s (35 s with more other work): 4,097 reports waited
// for longer than 1 s, and 2,585 of them were refused. An erasure with wipeGaps took 4 to 8
// s, and the slowest report 0.5 s (two shared cores, 2026-11-26).

const (
	// mappedPages is the number of pages that a pointer map describes: the pages after it.
	// The first map is page 2.
	// https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages
	mappedPages = pageBytes / 5

	// wipePages bounds the pages that one transaction overwrites.
	wipePages = 128
)

// checkLayout refuses a file with another page layout than a Store's, such as a file that
// SQLite's shell filled from a dump: it has no pointer maps.
func checkLayout(ctx context.Context, db queryer) error {
	ours, err := queryInt(ctx, db, "SELECT page_size = ? AND auto_vacuum <> 0 FROM pragma_page_size, pragma_auto_vacuum", pageBytes)
	if err == nil && ours == 0 {
		err = fmt.Errorf(`its pages are not as Cadenza makes them: stop the gateway, and have sqlite3 run "PRAGMA journal_mode = DELETE; PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; VACUUM"`, pageBytes)
	}
	return err
}

// wipeGaps zeroes the unused bytes of all b-tree pages.
func (e *erasure) wipeGaps(ctx context.Context) error {
	for first := int64(2); ; first += mappedPages + 1 { // the page of a map
		count, err := queryInt(ctx, e.conn, "PRAGMA page_count")
		if err != nil || first > count {
			return err
		}
		gaps, err := gapsIn(ctx, e.conn, first, mappedBy(first))
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(gaps, wipePages) {
			if err := e.wipe(ctx, first, batch); err != nil {
				return err
			}
		}
	}
}

// mappedBy returns the pages that a map describes and, with the first map, page 1, which no
// map describes.
func mappedBy(first int64) (pages []int64) {
	if first == 2 {
		pages = append(pages, 1)
	}
	for page := first + 1; page <= first+mappedPages; page++ {
		pages = append(pages, page)
	}
	return pages
}

// wipe zeroes the unused bytes of pages that a map describes, if they are still b-tree
// pages: a writer may have used them for something else meanwhile.
func (e *erasure) wipe(ctx context.Context, first int64, batch []pageImage) error {
	pages := make([]int64, len(batch))
	for i := range batch {
		pages[i] = batch[i].number
	}
	if err := e.transact(ctx, func(tx *sql.Tx) error {
		gaps, err := gapsIn(ctx, tx, first, pages)
		if err != nil {
			return err
		}
		for _, p := range gaps {
			if _, err := tx.ExecContext(ctx, "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?", p.data, p.number); err != nil {
				return fmt.Errorf("page %d: %w", p.number, err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return e.copyLog(ctx, []doomedRow{{size: int64(len(batch)) * pageBytes}})
}

// pageImage is the content of a page.
type pageImage struct {
	number int64
	data   []byte
}

// gapsIn returns the b-tree pages among pages with unused bytes that are not zero, and
// zeroes these bytes in the copies.
func gapsIn(ctx context.Context, db querier, first int64, pages []int64) ([]pageImage, error) {
	trees, err := readTreePages(ctx, db, first, pages)
	return slices.DeleteFunc(trees, func(p pageImage) bool { return !zeroGaps(p.data, p.number == 1) }), err
}

// readTreePages reads the pages that exist and are b-tree pages. The map has five bytes for
// each; the first is 1 for a root page and 5 for another page of a b-tree.
func readTreePages(ctx context.Context, db querier, first int64, pages []int64) ([]pageImage, error) {
	list, err := json.Marshal(pages)
	if err != nil {
		return nil, err
	}
	return collect(ctx, db, func(scan func(...any) error) (p pageImage, err error) {
		return p, scan(&p.number, &p.data)
	}, `
WITH map AS MATERIALIZED (SELECT data FROM sqlite_dbpage WHERE pgno = ?1)
SELECT pgno, page.data FROM json_each(?2) CROSS JOIN sqlite_dbpage AS page ON pgno = value
WHERE value = 1 OR (SELECT substr(data, 5 * (value - ?1) - 4, 1) FROM map) IN (x'01', x'05')`, first, string(list))
}

// zeroGaps zeroes the unused bytes of a b-tree page: those between the cell pointers and
// the cells, and the free blocks among the cells. It reports whether that changed anything.
// It leaves a malformed page alone.
func zeroGaps(page []byte, isFirst bool) (changed bool) {
	header := 0
	if isFirst {
		header = 100 // after the header of the file
	}
	number := func(offset int) int { return int(binary.BigEndian.Uint16(page[offset:])) }
	length := 8
	switch page[header] {
	case 2, 5: // interior pages
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
	for offset := free; offset >= top && offset+4 <= len(page); {
		next, size := number(offset), number(offset+2)
		if size < 4 || offset+size > len(page) {
			break
		}
		changed = zero(page[offset+4:offset+size]) || changed
		if next <= offset { // the last one's is 0
			break
		}
		offset = next
	}
	return changed
}

// zero zeroes b, and reports whether that changed it.
func zero(b []byte) (changed bool) {
	changed = slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
	clear(b)
	return changed
}
