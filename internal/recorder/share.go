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

// shares divides the queue among workspaces, so that none takes the part of
// another. Half of each resource is divided in equal parts among the workspaces
// that joined; any workspace may use the other half. A workspace that is alone can
// use all of it. queue.mu guards it.
//
// For example, of 1,000 records two workspaces have 250 each for themselves, and
// one of them may hold 750 while the other holds none.
type shares struct {
	max         [resources]int64
	byWorkspace map[string]*share
	last        *share           // the last one that share returned
	joined      int64            // number of workspaces with a part
	parts       [resources]int64 // the part of each of them
	common      [resources]int64 // use beyond these parts, of all workspaces
}

// share is the part of one workspace in the queue.
type share struct {
	workspace string
	joins     int
	used      [resources]int64
	lost      [lossReasons]uint64
	logged    [lossReasons]uint64 // of lost, in the log
	recent    [lossReasons]bool   // a loss was logged within the last minute
}

// share returns the share of a workspace.
func (s *shares) share(workspace string) *share {
	if s.last != nil && s.last.workspace == workspace {
		return s.last
	}
	sh := s.byWorkspace[workspace]
	if sh == nil {
		sh = &share{workspace: workspace}
		s.byWorkspace[workspace] = sh
	}
	s.last = sh
	return sh
}

// own returns the part of a resource that is the workspace's alone.
func (s *shares) own(sh *share, res resource) int64 {
	if sh.joins == 0 {
		return 0
	}
	return s.parts[res]
}

// admits reports whether the share may take amount more of a resource. extra
// raises its ceilings by a quarter.
func (s *shares) admits(sh *share, res resource, amount int64, extra bool) bool {
	own, after := s.own(sh, res), sh.used[res]+amount
	common := s.max[res] - s.joined*s.parts[res]
	sure := own
	if extra {
		sure += own / 4
		common += s.max[res] / 4
	}
	return after <= sure || s.common[res]+beyond(after, own)-beyond(sh.used[res], own) <= common
}

// beyond returns how much of a share is not in the workspace's own part.
func beyond(used, own int64) int64 { return max(used-own, 0) }

// add takes amount of a resource, or gives it back if amount is negative.
func (s *shares) add(sh *share, res resource, amount int64) {
	own, before := s.own(sh, res), sh.used[res]
	sh.used[res] += amount
	s.common[res] += beyond(sh.used[res], own) - beyond(before, own)
}

// join gives a workspace a part of its own. It may join more than once.
func (s *shares) join(workspace string) {
	sh := s.share(workspace)
	if sh.joins++; sh.joins == 1 {
		s.joined++
		s.divide()
	}
}

// leave undoes one join.
func (s *shares) leave(workspace string) {
	sh := s.share(workspace)
	if sh.joins--; sh.joins > 0 {
		return
	}
	s.joined--
	if sh.used == ([resources]int64{}) {
		delete(s.byWorkspace, workspace)
		s.last = nil
	}
	s.divide()
}

// divide sets the parts again and sums up the use beyond them.
func (s *shares) divide() {
	s.parts, s.common = [resources]int64{}, [resources]int64{}
	for res := range resources {
		if s.joined > 0 {
			s.parts[res] = s.max[res] / 2 / s.joined
		}
	}
	for _, sh := range s.byWorkspace {
		for res := range resources {
			s.common[res] += beyond(sh.used[res], s.own(sh, res))
		}
	}
}

// Join gives a workspace its own part of the queue, until Leave has been called
// as often as Join. A workspace without a part uses the common half and idle
// parts.
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
	if sh := q.shares.byWorkspace[workspace]; sh == nil || sh.joins == 0 {
		q.revisions.kept = slices.DeleteFunc(q.revisions.kept, func(r *Revision) bool { return r.Workspace == workspace })
		q.experiments.kept = slices.DeleteFunc(q.experiments.kept, func(e *Experiments) bool { return e.Workspace == workspace })
	}
}
