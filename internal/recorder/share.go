package recorder

import "slices"

// resource is something that the queue bounds.
type resource uint8

const (
	callBytes resource = iota // of start records
	recordCount
	versionCount
	recordBytes // of records and versions
	durableCount
	durableBytes
	resources
)

// shares divides the queue among workspaces, so that none takes the room of
// another. Half of each resource is divided in equal parts among the workspaces
// that joined; any workspace may use the other half. A workspace that is alone can
// use all of it. queue.mu guards it.
//
// Of 1,000 records, for example, two workspaces have 250 each for themselves, and
// one of them may hold 750 while the other holds none.
type shares struct {
	max    [resources]int64
	of     map[string]*share
	last   *share           // that was asked for
	joined int64            // workspaces that have a part of their own
	parts  [resources]int64 // of each of them
	common [resources]int64 // what all have beyond their own parts
}

// share is what one workspace has in the queue.
type share struct {
	workspace string
	joins     int
	used      [resources]int64
	lost      [lossReasons]uint64
	told      [lossReasons]uint64 // of lost, in the log
	said      [lossReasons]bool   // that some are lost, lately
}

// share returns the share of a workspace.
func (s *shares) share(workspace string) *share {
	if s.last != nil && s.last.workspace == workspace {
		return s.last
	}
	of := s.of[workspace]
	if of == nil {
		of = &share{workspace: workspace}
		s.of[workspace] = of
	}
	s.last = of
	return of
}

// own returns the part of a resource that is the workspace's alone.
func (s *shares) own(of *share, what resource) int64 {
	if of.joins == 0 {
		return 0
	}
	return s.parts[what]
}

// admits reports whether there is room for amount more of a resource. extra makes
// the room a quarter larger.
func (s *shares) admits(of *share, what resource, amount int64, extra bool) bool {
	own, after := s.own(of, what), of.used[what]+amount
	room := s.max[what] - s.joined*s.parts[what]
	sure := own
	if extra {
		sure += own / 4
		room += s.max[what] / 4
	}
	return after <= sure || s.common[what]+beyond(after, own)-beyond(of.used[what], own) <= room
}

// beyond returns how much of a share is not in the workspace's own part.
func beyond(used, own int64) int64 { return max(used-own, 0) }

// add takes amount of a resource, or gives it back if amount is negative.
func (s *shares) add(of *share, what resource, amount int64) {
	own, before := s.own(of, what), of.used[what]
	of.used[what] += amount
	s.common[what] += beyond(of.used[what], own) - beyond(before, own)
}

// join gives a workspace a part of its own. It may join more than once.
func (s *shares) join(workspace string) {
	of := s.share(workspace)
	if of.joins++; of.joins == 1 {
		s.joined++
		s.divide()
	}
}

// leave undoes one join.
func (s *shares) leave(workspace string) {
	of := s.share(workspace)
	if of.joins--; of.joins > 0 {
		return
	}
	s.joined--
	if of.used == ([resources]int64{}) {
		delete(s.of, workspace)
		s.last = nil
	}
	s.divide()
}

// divide sets the parts again and sums up what is beyond them.
func (s *shares) divide() {
	s.parts, s.common = [resources]int64{}, [resources]int64{}
	for what := range resources {
		if s.joined > 0 {
			s.parts[what] = s.max[what] / 2 / s.joined
		}
	}
	for _, of := range s.of {
		for what := range resources {
			s.common[what] += beyond(of.used[what], s.own(of, what))
		}
	}
}

// Join gives a workspace a part of the queue of its own, until as many calls of
// Leave. A workspace without a part uses what the others leave.
func (r *Recorder) Join(workspace string) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	r.queue.shares.join(workspace)
}

// Leave undoes one Join.
func (r *Recorder) Leave(workspace string) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	q := &r.queue
	q.shares.leave(workspace)
	if of := q.shares.of[workspace]; of == nil || of.joins == 0 {
		q.served = slices.DeleteFunc(q.served, func(served *Revision) bool { return served.Workspace == workspace })
	}
}
