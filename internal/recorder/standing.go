package recorder

import "slices"

// standing are things that hold until another takes their place, such as the set that a
// workspace serves. They are outside the ceilings of the queue: they must not be dropped, and
// a workspace has few.
type standing[T any] struct {
	waiting []*T // for the store, the newest of each
	kept    []*T // of the workspaces that joined, for a store that replaces another
}

// put has a thing wait for the store in the place of the others that same finds.
func (s *standing[T]) put(thing *T, same func(*T) bool) {
	s.waiting = append(slices.DeleteFunc(s.waiting, same), thing)
	s.kept = append(slices.DeleteFunc(s.kept, same), thing)
}

// again has all that are kept wait for the store.
func (s *standing[T]) again() {
	for _, thing := range s.kept {
		if !slices.Contains(s.waiting, thing) {
			s.waiting = append(s.waiting, thing)
		}
	}
}
