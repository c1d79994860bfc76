package recorder

import "slices"

// fifo is a first-in first-out queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int // items before it were taken
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(item T) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 {
		kept := copy(f.items, f.items[f.head:])
		clear(f.items[kept:])
		f.items, f.head = f.items[:kept], 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() T {
	var zero T
	item := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return item
}

// clear empties f and gives its memory back.
func (f *fifo[T]) clear() { *f = fifo[T]{} }

// all returns what is queued, in order.
func (f *fifo[T]) all() []T { return slices.Clone(f.items[f.head:]) }
