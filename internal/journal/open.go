package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

// lookEvery is the least time between two looks for the used file at its path.
const lookEvery = time.Second

var (
	errMoved       = errors.New("it was moved or deleted; making another")
	errOverwritten = errors.New("it was emptied or overwritten; making another")
)

// found has the files of a process.
type found struct {
	files [2]*os.File // nil if there is none
	heads [2]head
}

// newest returns the file that was begun last.
func (l *found) newest() int {
	if l.heads[1].generation > l.heads[0].generation {
		return 1
	}
	return 0
}

// name returns the path of the first or the second file.
func name(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "-2"
}

// open opens the first files that no process has, and restores their records and the
// records of dead processes.
func (j *Journal) open() error {
	path := j.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	own, err := j.openOwn(path)
	if err != nil && j.Processes <= 1 {
		j.peek(path)
		return err
	}
	ownPath := path
	for n := 1; n < j.Processes; n++ {
		other := fmt.Sprintf("%s.%d", path, n)
		if err == nil {
			j.takeOver(other)
		} else if errors.Is(err, private.ErrLocked) {
			ownPath = other
			own, err = j.openOwn(ownPath)
		}
	}
	if err != nil {
		return err
	}
	private.Warn(j.Logger, name(ownPath, 0), name(ownPath, 1))
	j.restore(own, false)
	j.path = ownPath
	j.mu.Lock()
	defer j.mu.Unlock()
	newest := own.newest()
	h := own.heads[newest]
	j.files, j.used, j.generation = own.files, newest, h.generation
	switch {
	case h.generation == 0:
		j.used = 1 // the first one is begun
	case h.whole:
		j.whole = h.generation
	default:
		j.seed = h.seed
	}
	return nil
}

// openOwn opens both files for this process alone, and makes them if there are none.
func (j *Journal) openOwn(path string) (own *found, err error) {
	own = new(found)
	for i := range own.files {
		if own.files[i], own.heads[i], err = j.openOne(name(path, i)); err != nil {
			return nil, errors.Join(err, each(own.files, (*os.File).Close))
		}
	}
	return own, nil
}

func (j *Journal) openOne(path string) (*os.File, head, error) {
	file, err := private.OpenLocked(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, head{}, err
	}
	h, err := readHead(file, j.Mark)
	if err != nil {
		return nil, head{}, errors.Join(err, file.Close())
	}
	if h.generation == 0 {
		private.RestrictFile(file)
	}
	return file, h, nil
}

// openOthers opens the files of another process, as far as they can be opened.
func (j *Journal) openOthers(path string, open func(path string) (*os.File, error)) (l *found, err error) {
	l = new(found)
	for i := range l.files {
		file, failed := open(name(path, i))
		if failed == nil {
			if l.heads[i], failed = readHead(file, j.Mark); failed == nil {
				l.files[i] = file
				continue
			}
			failed = errors.Join(failed, file.Close())
		}
		if !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, private.ErrLocked) {
			err = failed
		}
	}
	return l, err
}

// takeOver restores the records of a dead process. Its files are removed once this process
// has the records.
func (j *Journal) takeOver(path string) {
	l, err := j.openOthers(path, func(path string) (*os.File, error) { return private.OpenLocked(path, os.O_RDWR) })
	if err != nil {
		j.Logger.Error("the file of a dead process can't be read", "error", err)
	}
	if l.files != [2]*os.File{} {
		j.restore(l, false)
		j.past = append(j.past, l.files)
	}
}

// peek restores, once, the records of files that this process can't own: another process
// does, or the disk can't be written.
func (j *Journal) peek(path string) {
	if j.peeked {
		return
	}
	l, _ := j.openOthers(path, os.Open) // the unreadable file may not be needed
	if j.peeked = l.heads[l.newest()].generation > 0; j.peeked {
		j.restore(l, true)
	}
	_ = each(l.files, (*os.File).Close) // they were only read
}

// restore passes the records of files to the state: of the newest one, after the one
// before it unless the newest is whole.
func (j *Journal) restore(l *found, alive bool) {
	damaged, newest := 0, l.newest()
	j.State.Restore(func(yield func([]byte) bool) {
		for _, i := range [2]int{1 - newest, newest} {
			if l.files[i] == nil || i != newest && l.heads[newest].whole {
				continue
			}
			n, err := scan(l.files[i], l.heads[i], yield)
			damaged += n
			if err != nil {
				j.Logger.Error("a file can't be read to its end", "file", l.files[i].Name(), "error", err)
			}
		}
	}, alive)
	if damaged > 0 && !alive {
		j.mu.Lock()
		j.damaged += damaged
		j.mu.Unlock()
		j.Logger.Warn("damaged records were passed over", "file", j.Path, "count", damaged)
	}
}

// look checks once in a second that the used file is at its path, and is the one that
// this process writes: no later process would find records in another one. Otherwise
// it begins the other file.
func (j *Journal) look() error {
	now := time.Now()
	if now.Before(j.lookAt) {
		return nil
	}
	j.lookAt = now.Add(lookEvery)
	file := j.files[j.used]
	var text [headSize]byte
	_, err := file.ReadAt(text[:], 0)
	switch {
	case private.Moved(file):
		err = errMoved
	case (err == nil || errors.Is(err, io.EOF)) && !bytes.Equal(text[:], j.head):
		err = errOverwritten
	default:
		return nil
	}
	j.try(func() error { return err })
	return j.restart()
}
